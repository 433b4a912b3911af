/** @module A server whose process may open no more files, or whose socket goes: it comes back. */

import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { TempDir, until } from "../kit/mod.ts";

/** A server in a process that may have 64 files open. */
class Starved implements AsyncDisposable {
  readonly said: string[] = [];
  readonly held: Deno.Conn[] = [];
  readonly #child: Deno.ChildProcess;
  readonly #read: Promise<void>;

  constructor(...args: string[]) {
    const program = fileURLToPath(new URL("listener_server.ts", import.meta.url));
    this.#child = new Deno.Command("/bin/sh", {
      args: [
        "-c",
        'ulimit -n 64 && exec "$0" run -A --no-prompt "$@"',
        Deno.execPath(),
        program,
        ...args,
      ],
      stdin: "null",
      stdout: "piped",
    }).spawn();
    this.#read = this.#child.stdout.pipeThrough(new TextDecoderStream()).pipeTo(
      new WritableStream({ write: (text) => void this.said.push(...text.trim().split("\n")) }),
    );
  }

  async url(): Promise<string> {
    return await until("it listens", () => this.said[0] ?? null);
  }

  async dial(): Promise<Deno.Conn> {
    const url = new URL(await this.url());
    return url.protocol === "unix:"
      ? await Deno.connect({ transport: "unix", path: url.pathname })
      : await Deno.connect({ hostname: url.hostname, port: Number(url.port) });
  }

  /** Connect until it takes no more, and hold what it took. */
  async fill(): Promise<void> {
    for (let more = true; more && this.held.length < 200;) {
      more = await this.dial().then((each) => this.held.push(each) > 0, () => false);
    }
  }

  release(): void {
    for (const each of this.held.splice(0)) each.close();
  }

  /** What it answers, once it does. */
  async answer(): Promise<string> {
    return await until("it answers", () => this.#ask().catch(() => null));
  }

  async #ask(): Promise<string | null> {
    const connection = await this.dial();
    await connection.write(
      new TextEncoder().encode("GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"),
    );
    const text = await new Response(connection.readable).text();
    return text === "" ? null : text.slice(text.lastIndexOf("\n") + 1);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.release();
    this.#child.kill("SIGKILL");
    await this.#child.status;
    await this.#read;
  }
}

Deno.test("a server that could not accept a connection listens again where it did", async () => {
  await using server = new Starved();
  await server.fill();
  server.release();
  assert.equal(await server.answer(), "hello");
});

Deno.test("it does so while its clients stay connected, which hides from Deno that it ended", async (test) => {
  await using dir = await TempDir.make();
  for (const args of [[], [dir.join("socket")]]) {
    await test.step(args.length === 0 ? "TCP" : "a Unix socket", async () => {
      await using server = new Starved(...args);
      await server.fill();
      assert.equal(await server.answer(), "hello");
      assert.ok(server.said.includes("http.listener_failed"));
    });
  }
});

Deno.test("a socket that somebody removed is made again", async () => {
  await using dir = await TempDir.make();
  await using server = new Starved(dir.join("socket"));
  await server.url();
  await Deno.remove(dir.join("socket"));
  assert.equal(await server.answer(), "hello");
});
