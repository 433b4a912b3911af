/** @module The processes of a real piloop, for the tests that join it with ours. */

import { Programs } from "../../scripts/demo/programs.ts";
import { until } from "../kit/mod.ts";

/** The `piloop` executable to test with, from `SUBLET_TEST_PILOOP`; null when there is none. */
export const PILOOP = Deno.env.get("SUBLET_TEST_PILOOP") || null;

const IDENTITY = {
  GIT_AUTHOR_NAME: "peer",
  GIT_AUTHOR_EMAIL: "peer@example.com",
  GIT_COMMITTER_NAME: "peer",
  GIT_COMMITTER_EMAIL: "peer@example.com",
};

const FAKE = `harnesses = ["fake"]
model = { fake = "none" }
harness = { fake = { executable = "sh", headless = ["-c", "true", "{prompt}"] } }
`;

/**
 * The `piloop.toml` of a campaign with the TOML `top` at its top level: its name and what evaluates it, say. Nothing in
 * it asks for agents; `harnesses` are those that it may have, by default one that is never used.
 */
export function piloopCampaign(top: string, harnesses = FAKE): string {
  return `${top}\n${harnesses}metrics = [{ name = "score", direction = "higher", role = "primary" }]
roles = { watchdog = { triggers = [] }, research = { triggers = [] }, scout = { triggers = [] } }
`;
}

/** A port of loopback that was free just now. */
export function freePort(): number {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  return listener.addr.port;
}

/** A process of piloop's that stays. */
export class PiloopProcess {
  #text = "";
  readonly #read: Promise<unknown>;

  constructor(readonly child: Deno.ChildProcess) {
    const collect = async (stream: ReadableStream<Uint8Array>) => {
      for await (const chunk of stream.pipeThrough(new TextDecoderStream())) this.#text += chunk;
    };
    this.#read = Promise.all([collect(child.stdout), collect(child.stderr)]);
  }

  /** What it printed so far. */
  get text(): string {
    return this.#text;
  }

  kill(signal: Deno.Signal): void {
    try {
      this.child.kill(signal);
    } catch {
      // It ended already.
    }
  }

  /** Its exit code, once it ended and everything that it printed was read. */
  async ended(): Promise<number> {
    const { code } = await this.child.status;
    await this.#read;
    return code;
  }
}

/** Runs piloop with homes beneath the root of `programs`. */
export class Piloop implements AsyncDisposable {
  readonly #running: PiloopProcess[] = [];

  constructor(readonly programs: Programs, readonly executable: string) {}

  #command(
    home: string,
    args: readonly string[],
    env: Record<string, string> = {},
  ): Deno.Command {
    const root = `${this.programs.root}/${home}`;
    return new Deno.Command(this.executable, {
      args: [...args],
      cwd: this.programs.root,
      env: { ...IDENTITY, PILOOP_HOME: root, HOME: root, ...env },
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
    });
  }

  async run(home: string, ...args: string[]): Promise<string> {
    const { success, stdout, stderr } = await this.#command(home, args).output();
    const text = new TextDecoder();
    if (!success) throw new Error(`piloop ${args.join(" ")}: ${text.decode(stderr)}`);
    return text.decode(stdout);
  }

  start(home: string, args: readonly string[], env: Record<string, string> = {}): PiloopProcess {
    const process = new PiloopProcess(this.#command(home, args, env).spawn());
    this.#running.push(process);
    return process;
  }

  /** Start a server, and wait until it listens on `port`. */
  async listen(home: string, args: readonly string[], port: number): Promise<PiloopProcess> {
    const process = this.start(home, [...args, "--listen", `127.0.0.1:${port}`]);
    await until(`piloop ${args.join(" ")} listens`, async () => {
      try {
        (await Deno.connect({ hostname: "127.0.0.1", port })).close();
        return true;
      } catch {
        return false;
      }
    }, 120);
    return process;
  }

  /** Start a worker of `pool` lab. */
  async worker(
    name: string,
    { server, cas, token }: { server: string; cas: string; token: string },
  ): Promise<PiloopProcess> {
    await this.programs.write(
      `${name}/config.toml`,
      `[plugins.cas]\nprovider = "http"\nurl = "${cas}"\n`,
    );
    const argv = ["worker", "--server", server, "--pool", "lab"];
    return this.start(name, argv, { PILOOP_HTTPS_TOKEN: token });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const process of this.#running.toReversed()) {
      process.kill("SIGTERM");
      const timer = setTimeout(() => process.kill("SIGKILL"), 20_000);
      await process.ended();
      clearTimeout(timer);
    }
  }
}
