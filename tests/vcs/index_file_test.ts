import assert from "node:assert/strict";
import { indexEntries } from "../../lib/vcs/index_file.ts";
import { Bench } from "./kit.ts";

for (const format of ["sha1", "sha256"] as const) {
  Deno.test(`every entry of an index of ${format} is read as git lists it`, async () => {
    await using bench = await Bench.make();
    const { work, record } = await bench.record("record", format);
    const files: Record<string, string> = {};
    // Names of every length modulo eight, and one longer than the length that an entry can state.
    for (let i = 1; i < 40; i++) files[`${"n".repeat(i)}`] = "x".repeat(i * 7);
    files[Array.from({ length: 40 }, () => "d".repeat(120)).join("/").slice(0, 3000)] = "deep";
    const revision = await work.commit(files);
    const path = bench.dir.join("w");
    await record.checkout(revision, path);
    const [worktree] = await Array.fromAsync(Deno.readDir(`${work.path}/.git/worktrees`));
    const bytes = await Deno.readFile(`${work.path}/.git/worktrees/${worktree?.name}/index`);
    const entries = [...indexEntries(bytes, format)];
    const listed = (await work.git("ls-files")).split("\n");
    assert.deepEqual(entries.map((entry) => entry.path), listed);
    for (const { path: name, size, submodule } of entries) {
      assert.equal(size, (await Deno.stat(`${path}/${name}`)).size);
      assert.equal(submodule, false);
    }
    for (const length of [0, 11, 13, 60, bytes.indexOf(110) + 1]) {
      assert.throws(() => [...indexEntries(bytes.slice(0, length), format)], /not of version 2/);
    }
  });
}
