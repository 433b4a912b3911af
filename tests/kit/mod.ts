/** @module Helpers that every test may use. */

/** A temporary directory that is removed when it is disposed. */
export class TempDir implements AsyncDisposable {
  private constructor(readonly path: string) {}

  /** A new one, in `dir`; default: the system's. */
  static async make(prefix = "sublet-test-", dir?: string): Promise<TempDir> {
    const options = dir === undefined ? { prefix } : { prefix, dir };
    return new TempDir(await Deno.realPath(await Deno.makeTempDir(options)));
  }

  join(...parts: string[]): string {
    return [this.path, ...parts].join("/");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Deno.remove(this.path, { recursive: true }).catch(() => {});
  }
}

/** Wait until `condition` gives something other than null, undefined or false; fail with `what` after `seconds`. */
export async function until<T>(
  what: string,
  condition: () => T | Promise<T>,
  seconds = 20,
): Promise<NonNullable<T>> {
  const deadline = performance.now() + seconds * 1000;
  while (true) {
    const found = await condition();
    if (found !== null && found !== undefined && found !== false) return found;
    if (performance.now() > deadline) throw new Error(`timed out after ${seconds} s: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** Run a program to its end; throws with its output unless it exits with 0. */
export async function run(argv: string[], options: Deno.CommandOptions = {}): Promise<string> {
  const [program, ...args] = argv;
  if (program === undefined) throw new Error("empty argv");
  const { success, stdout, stderr, code } = await new Deno.Command(program, { ...options, args })
    .output();
  const text = new TextDecoder();
  if (!success) throw new Error(`${argv.join(" ")} exited with ${code}: ${text.decode(stderr)}`);
  return text.decode(stdout);
}
