/** @module A job in a checkout of a replica, and what comes home of it. */

import assert from "node:assert/strict";
import type { Captured, CaptureOptions, Repository, Saved } from "../../lib/vcs/mod.ts";
import { Bench, git, type Work } from "./kit.ts";

/** A checkout that an agent works in. */
export class Desk implements AsyncDisposable {
  private constructor(
    readonly bench: Bench,
    readonly work: Work,
    readonly record: Repository,
    readonly replica: Repository,
    readonly base: string,
    readonly path: string,
  ) {}

  static async make(
    files: Record<string, string | Uint8Array> = { "dir/b.txt": "two\n" },
    format = "sha1",
  ): Promise<Desk> {
    const bench = await Bench.make();
    const { work, record } = await bench.record("record", format);
    const base = await work.commit(files);
    const replica = await bench.replica();
    const path = bench.dir.join("runs/1/worktree");
    await replica.checkout(base, path, { cas: bench.cas, ask: bench.asks(record) });
    return new Desk(bench, work, record, replica, base, path);
  }

  git(...args: string[]): Promise<string> {
    return git(this.path, ...args);
  }

  async write(name: string, content: string | Uint8Array): Promise<void> {
    const path = `${this.path}/${name}`;
    await Deno.mkdir(path.slice(0, path.lastIndexOf("/")), { recursive: true });
    if (typeof content === "string") await Deno.writeTextFile(path, content);
    else await Deno.writeFile(path, content);
  }

  async commit(files: Record<string, string>, message = "By the agent"): Promise<string> {
    for (const [name, content] of Object.entries(files)) await this.write(name, content);
    await this.git("add", "-A");
    await this.git("commit", "-q", "--allow-empty", "-m", message);
    return await this.git("rev-parse", "HEAD");
  }

  capture(options: CaptureOptions = {}): Promise<Captured> {
    return this.replica.capture(this.bench.cas, this.path, this.base, options);
  }

  /** Capture, and take it into the repo of record. */
  async home(
    options: CaptureOptions = {},
  ): Promise<{ captured: Captured; saved: Saved[]; files: Map<string, string> }> {
    const captured = await this.capture(options);
    assert.ok(captured.work, "nothing came home");
    const saved = await this.record.receive(this.bench.cas, captured.work, this.base);
    return { captured, saved, files: await this.filesOf(captured.work.head) };
  }

  /** The files of a commit in the repo of record, as `MODE TEXT`. */
  async filesOf(revision: string): Promise<Map<string, string>> {
    const files = new Map<string, string>();
    const listed = await this.work.git("ls-tree", "-r", "-z", revision);
    for (const line of listed.split("\0").filter((each) => each !== "")) {
      const [, mode = "", type = "", id = "", name = ""] =
        /^(\d+) (\w+) ([0-9a-f]+)\t(.*)$/s.exec(line) ?? [];
      files.set(
        name,
        type === "blob"
          ? `${mode} ${await this.work.git("cat-file", "blob", id)}`
          : `${mode} ${id}`,
      );
    }
    return files;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.bench[Symbol.asyncDispose]();
  }
}
