/** @module `Processes.exec` over `Deno.Command`, for tests: helpers get PATH and what the call gives them. */

import type { ExecResult, ExecSpec } from "../../lib/home/mod.ts";

/** Run `spec` to its end. */
export async function exec(spec: ExecSpec): Promise<ExecResult> {
  const [program = "", ...args] = spec.argv;
  const out = spec.stdoutPath === undefined
    ? null
    : await Deno.open(spec.stdoutPath, { write: true, create: true, truncate: true });
  const child = new Deno.Command(program, {
    args,
    cwd: spec.cwd,
    clearEnv: true,
    env: { PATH: Deno.env.get("PATH") ?? "/usr/bin:/bin", ...spec.env },
    stdin: spec.stdin === undefined ? "null" : "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const timer = setTimeout(() => child.kill("SIGKILL"), spec.timeoutMs ?? 600_000);
  try {
    const [, stdout, stderr, status] = await Promise.all([
      feed(child, spec.stdin),
      out === null
        ? new Response(child.stdout).bytes()
        : child.stdout.pipeTo(out.writable).then(() => new Uint8Array()),
      new Response(child.stderr).text(),
      child.status,
    ]);
    return { code: status.code, stdout, stderr: stderr.slice(-65_536) };
  } finally {
    clearTimeout(timer);
  }
}

async function feed(child: Deno.ChildProcess, stdin: ExecSpec["stdin"]): Promise<void> {
  if (stdin === undefined) return;
  const source = stdin instanceof Uint8Array
    ? ReadableStream.from([stdin])
    : (await Deno.open(stdin.path)).readable;
  // A helper that ends early closes its stdin: its exit code says why.
  await source.pipeTo(child.stdin).catch((error) => {
    if (!(error instanceof Deno.errors.BrokenPipe)) throw error;
  });
}
