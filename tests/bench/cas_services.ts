/** @module The services that are compared: ours, what the same runtime does without a store, piloop's and bazel-remote. */

import { createHash } from "node:crypto";
import { cidOf } from "../../lib/cas/mod.ts";
import { freePort, piloopCampaign } from "../e2e/piloop_kit.ts";
import { run, until } from "../kit/mod.ts";

/** A service in a process of its own. */
export interface Service extends AsyncDisposable {
  readonly name: string;
  readonly port: number;
  /** The status of a put that stored something. */
  readonly created: number;
  /** The path of a blob. */
  path(data: Uint8Array): string;
  /** Lines of a request's head, each with its end, besides `Host` and `Content-Length`. */
  readonly fields: string;
  /** Its largest memory so far, in MiB. */
  peak(): number;
}

/** The head of a request of `service`, and maybe its body. */
export function request(
  service: Service,
  method: string,
  path: string,
  body?: Uint8Array,
): Uint8Array<ArrayBuffer> {
  const length = body === undefined ? "" : `Content-Length: ${body.length}\r\n`;
  const head = new TextEncoder().encode(
    `${method} ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n${service.fields}${length}\r\n`,
  );
  const whole = new Uint8Array(head.length + (body?.length ?? 0));
  whole.set(head);
  if (body !== undefined) whole.set(body, head.length);
  return whole;
}

/** Why a service is not there. */
export class Absent {
  constructor(readonly name: string, readonly why: string) {}
}

interface Process {
  readonly child: Deno.ChildProcess;
  readonly port: number;
}

function serviceOf(
  name: string,
  { child, port }: Process,
  rest: Pick<Service, "created" | "path" | "fields">,
): Service {
  return {
    name,
    port,
    ...rest,
    peak() {
      const status = Deno.readTextFileSync(`/proc/${child.pid}/status`);
      return Number(/VmHWM:\s+(\d+) kB/.exec(status)?.[1]) / 1024;
    },
    async [Symbol.asyncDispose]() {
      child.kill("SIGKILL");
      await child.status;
    },
  };
}

/** Our service, or (`plain`) one that receives to a file without hashing and serves a file as it is. */
export async function startOurs(kind: "cas" | "plain", root: string): Promise<Service> {
  const script = new URL("./cas_server.ts", import.meta.url).pathname;
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", script, kind, root],
    stdout: "piped",
  }).spawn();
  const reader = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
  const { value } = await reader.read();
  await reader.cancel();
  return serviceOf(kind === "cas" ? "sublet" : "plain", { child, port: Number(value) }, {
    created: 201,
    path: (data) => `/v1/cas/${cidOf(data)}`,
    fields: "",
  });
}

async function listening(
  program: string,
  args: string[],
  port: number,
  env = {},
): Promise<Process> {
  const child = new Deno.Command(program, {
    args,
    env,
    stdin: "null",
    stdout: "null",
    stderr: "null",
  }).spawn();
  try {
    await until(`${program} listens`, async () => {
      const connection = await Deno.connect({ hostname: "127.0.0.1", port }).catch(() => null);
      connection?.close();
      return connection !== null;
    }, 30);
  } catch (error) {
    child.kill("SIGKILL");
    await child.status;
    throw error;
  }
  return { child, port };
}

const CAMPAIGN = piloopCampaign('name = "bench"\nevaluate = ["echo", "METRIC score=1"]');

/** `piloop cas serve`, of the executable that SUBLET_TEST_PILOOP names. */
export async function startPiloop(root: string): Promise<Service | Absent> {
  const name = "piloop cas serve";
  const program = Deno.env.get("SUBLET_TEST_PILOOP");
  if (!program) return new Absent(name, "SUBLET_TEST_PILOOP names no piloop (Python 3.14)");
  const identity = ["AUTHOR", "COMMITTER"].flatMap((who) => [
    [`GIT_${who}_NAME`, "bench"],
    [`GIT_${who}_EMAIL`, "bench@example.com"],
  ]);
  const env = { PILOOP_HOME: `${root}/home`, HOME: root, ...Object.fromEntries(identity) };
  try {
    // Its database comes with its first campaign.
    await Deno.mkdir(`${root}/repository`);
    await Deno.writeTextFile(`${root}/repository/piloop.toml`, CAMPAIGN);
    await Deno.writeTextFile(`${root}/repository/brief.md`, "A benchmark.\n");
    const git = (...args: string[]) => run(["git", "-C", `${root}/repository`, ...args], { env });
    await git("init", "-q");
    await git("add", ".");
    await git("commit", "-qm", "bench");
    await run([program, "init", `${root}/repository`], { env, cwd: root });
    const token = /plt_[\w-]+/.exec(await run([program, "token", "create", "bench"], { env }))?.[0];
    const port = freePort();
    const args = ["cas", "serve", "--listen", `127.0.0.1:${port}`];
    return serviceOf(name, await listening(program, args, port, env), {
      created: 201,
      path: (data) => `/v1/cas/${cidOf(data)}`,
      fields: `Authorization: Bearer ${token}\r\n`,
    });
  } catch (error) {
    return new Absent(name, `it did not start: ${String(error).split("\n")[0]}`);
  }
}

/** `bazel-remote`, from SUBLET_TEST_BAZEL_REMOTE or the PATH. */
export async function startBazelRemote(root: string): Promise<Service | Absent> {
  const name = "bazel-remote";
  const program = Deno.env.get("SUBLET_TEST_BAZEL_REMOTE") || name;
  const [port, grpc] = [freePort(), "none"];
  const args = [
    ...["--dir", `${root}/bazel`, "--max_size", "100", "--http_address", `127.0.0.1:${port}`],
    ...["--grpc_address", grpc, "--access_log_level", "none"],
  ];
  try {
    return serviceOf(name, await listening(program, args, port), {
      created: 200,
      path: (data) => `/cas/${createHash("sha256").update(data).digest("hex")}`,
      fields: "",
    });
  } catch (error) {
    const why = error instanceof Deno.errors.NotFound
      ? "neither on the PATH nor named by SUBLET_TEST_BAZEL_REMOTE"
      : `it did not start: ${String(error).split("\n")[0]}`;
    return new Absent(name, why);
  }
}
