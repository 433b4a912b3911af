/** @module A short helper process such as git: awaited, its output bounded, killed when it takes too long. */

import { type ExecResult, type ExecSpec, messageOf, SubletError } from "../../home/mod.ts";

const TIMEOUT_MS = 600_000;
/** More than this of stdout kills the helper. */
const MAX_STDOUT = 256 * 1024 * 1024;
const MAX_STDERR = 64 * 1024;
/** How long output may still come once the helper has ended: what it started may hold its pipes for ever. */
const LINGER_MS = 500;

/** Files come and go by the shell, which may make them where a supervisor may not. */
const SCRIPT = `in=$1 out=$2
shift 2
if [ -n "$out" ]; then exec >"$out" || exit 126; fi
if [ -n "$in" ]; then exec <"$in" || exit 126; fi
exec "$@"
`;

/** Run `spec` to its end, with `env` as its whole environment. Throws `failed` when it cannot start or takes too long. */
export async function execHelper(
  spec: ExecSpec,
  env: Readonly<Record<string, string>>,
): Promise<ExecResult> {
  const { argv: [program = "", ...args], cwd, stdin, stdoutPath } = spec;
  const bytes = stdin instanceof Uint8Array ? stdin : null;
  const path = stdin === undefined || stdin instanceof Uint8Array ? null : stdin.path;
  const direct = path === null && stdoutPath === undefined;
  const command = new Deno.Command(direct ? program : "/bin/sh", {
    args: direct ? args : ["-c", SCRIPT, "sh", path ?? "", stdoutPath ?? "", program, ...args],
    cwd,
    env,
    clearEnv: true,
    // A group of its own, so that a timeout ends all of it.
    detached: true,
    stdin: bytes === null ? "null" : "piped",
    stdout: stdoutPath === undefined ? "piped" : "null",
    stderr: "piped",
  });
  let child: Deno.ChildProcess;
  try {
    child = command.spawn();
  } catch (cause) {
    throw new SubletError("failed", `${program} could not start: ${messageOf(cause)}`, { cause });
  }
  return await new Watch(program, child, stdoutPath === undefined).run(bytes, spec.timeoutMs);
}

/** One helper that runs. */
class Watch {
  #failure: SubletError | null = null;

  constructor(
    private readonly program: string,
    private readonly child: Deno.ChildProcess,
    private readonly piped: boolean,
  ) {}

  async run(stdin: Uint8Array | null, timeoutMs = TIMEOUT_MS): Promise<ExecResult> {
    const { child, program } = this;
    const late = `${program} took longer than ${timeoutMs / 1000} s, and was killed`;
    const timer = setTimeout(() => this.#kill("failed", late), timeoutMs);
    const ended = new AbortController();
    const out = this.piped ? this.#collect(child.stdout, ended.signal) : Promise.resolve([]);
    const err = tail(child.stderr, ended.signal);
    // A helper that reads nothing more is no failure of its own.
    const fed = stdin === null ? null : feed(child.stdin, stdin).catch(() => {});
    const { code } = await child.status;
    clearTimeout(timer);
    const linger = setTimeout(() => ended.abort(), LINGER_MS);
    const [stdout, stderr] = await Promise.all([out, err, fed]);
    clearTimeout(linger);
    if (this.#failure !== null) throw this.#failure;
    return { code, stdout: joined(stdout), stderr };
  }

  async #collect(stream: ReadableStream<Uint8Array>, signal: AbortSignal): Promise<Uint8Array[]> {
    const chunks: Uint8Array[] = [];
    let length = 0;
    for await (const chunk of until(stream, signal)) {
      length += chunk.length;
      if (length > MAX_STDOUT) {
        this.#kill("too_large", `${this.program} wrote more than ${MAX_STDOUT} bytes`);
        break;
      }
      chunks.push(chunk);
    }
    return chunks;
  }

  #kill(code: "failed" | "too_large", message: string): void {
    this.#failure ??= new SubletError(code, message);
    try {
      Deno.kill(-this.child.pid, "SIGKILL");
    } catch {
      // It ended by itself meanwhile.
    }
  }
}

async function feed(stream: WritableStream<Uint8Array>, bytes: Uint8Array): Promise<void> {
  const writer = stream.getWriter();
  try {
    await writer.write(bytes);
  } finally {
    await writer.close();
  }
}

/** The chunks of `stream` until it ends or `signal` aborts. */
async function* until(
  stream: ReadableStream<Uint8Array>,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const reader = stream.getReader();
  const stop = () => void reader.cancel().catch(() => {});
  signal.addEventListener("abort", stop);
  try {
    while (true) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    signal.removeEventListener("abort", stop);
    stop();
  }
}

/** The last bytes of `stream`, as text. */
async function tail(stream: ReadableStream<Uint8Array>, signal: AbortSignal): Promise<string> {
  let kept = new Uint8Array();
  for await (const chunk of until(stream, signal)) {
    kept = joined([kept, chunk]).slice(-MAX_STDERR);
  }
  return new TextDecoder().decode(kept);
}

function joined(chunks: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const all = new Uint8Array(chunks.reduce((sum, chunk) => sum + chunk.length, 0));
  let at = 0;
  for (const chunk of chunks) {
    all.set(chunk, at);
    at += chunk.length;
  }
  return all;
}
