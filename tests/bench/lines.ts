/** @module A child process that is asked by JSON lines on its stdin, and answers by JSON lines on its stdout. */

/** Lines of a stream. */
export async function* linesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  let left = "";
  for await (const chunk of stream.pipeThrough(new TextDecoderStream())) {
    const lines = (left + chunk).split("\n");
    left = lines.pop() ?? "";
    yield* lines;
  }
}

/** Answer the lines of this process's stdin, one after another, with `answer`. */
export async function answerLines(answer: (question: unknown) => Promise<unknown>): Promise<void> {
  for await (const line of linesOf(Deno.stdin.readable)) {
    console.log(JSON.stringify(await answer(JSON.parse(line)) ?? null));
  }
}

/** A child that answers lines. */
export class LineChild implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;
  readonly #lines: AsyncGenerator<string>;
  readonly #writer: WritableStreamDefaultWriter<Uint8Array>;

  constructor(script: string, args: readonly string[], flags: readonly string[] = []) {
    const path = new URL(script, import.meta.url).pathname;
    this.#child = new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", "--no-lock", "--no-check", ...flags, path, ...args],
      stdin: "piped",
      stdout: "piped",
      stderr: "inherit",
    }).spawn();
    this.#lines = linesOf(this.#child.stdout);
    this.#writer = this.#child.stdin.getWriter();
  }

  /** The next line that it prints. */
  async read<T>(): Promise<T> {
    const { value, done } = await this.#lines.next();
    if (done === true) throw new Error("the child ended");
    return JSON.parse(value) as T;
  }

  /** What it answers to `question`. */
  async ask<T>(question: unknown): Promise<T> {
    await this.#writer.write(new TextEncoder().encode(JSON.stringify(question) + "\n"));
    return await this.read<T>();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      this.#child.kill("SIGKILL");
    } catch {
      // It ended already.
    }
    await this.#child.status;
    await this.#writer.abort().catch(() => {});
    await this.#lines.return(undefined);
  }
}
