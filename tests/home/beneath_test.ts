// deno-lint-ignore-file no-non-null-assertion
import assert from "node:assert/strict";
import {
  isError,
  lstatBeneath,
  mkdirBeneath,
  openBeneath,
  removeBeneath,
  writeBeneath,
} from "../../lib/home/mod.ts";
import { run, TempDir } from "../kit/mod.ts";

const bytes = (text: string) => new TextEncoder().encode(text);
const text = (data: Uint8Array) => new TextDecoder().decode(data);

/** A root, and beside it a directory that nothing may reach: `outside/secret` holds "secret". */
async function world() {
  const dir = await TempDir.make();
  const root = dir.join("root");
  await Deno.mkdir(root);
  await Deno.mkdir(dir.join("outside"));
  await Deno.writeTextFile(dir.join("outside/secret"), "secret");
  return {
    root,
    outside: dir.join("outside"),
    async read(path: string) {
      await using file = await openBeneath(root, path, { what: "the report's files" });
      return text(await file.bytes(1_000_000));
    },
    async untouched() {
      const names = [...Deno.readDirSync(dir.join("outside"))].map((entry) => entry.name);
      assert.deepEqual(names, ["secret"]);
      assert.equal(await Deno.readTextFile(dir.join("outside/secret")), "secret");
    },
    [Symbol.asyncDispose]: () => dir[Symbol.asyncDispose](),
  };
}

const unsafe = (error: unknown) => isError(error, "unsafe_path");
const absent = (error: unknown) => isError(error, "not_found");

Deno.test("a file that is written beneath a root is read back, and its directories are made", async () => {
  await using w = await world();
  await writeBeneath(w.root, "a/b/c.txt", bytes("hello"), { mode: 0o640, sync: true });
  assert.equal(await w.read("a/b/c.txt"), "hello");
  assert.equal((await Deno.stat(`${w.root}/a/b/c.txt`)).mode! & 0o777, 0o640);
  assert.equal((await Deno.stat(`${w.root}/a`)).mode! & 0o777, 0o700);
  await writeBeneath(w.root, "a/b/c.txt", new Blob(["again"]).stream());
  assert.equal(await w.read("a/b/c.txt"), "again");
  assert.deepEqual([...Deno.readDirSync(`${w.root}/a/b`)].map((entry) => entry.name), ["c.txt"]);
});

Deno.test("an opened file tells its size and mode, and streams", async () => {
  await using w = await world();
  const big = new Uint8Array(700_000).map((_, index) => index % 251);
  await writeBeneath(w.root, "big", big, { mode: 0o600 });
  const file = await openBeneath(w.root, "big");
  assert.deepEqual([file.size, file.mode], [700_000, 0o600]);
  assert.deepEqual(await new Response(file.stream()).bytes(), big);
});

Deno.test("a file that is longer than allowed is `too_large`", async () => {
  await using w = await world();
  await writeBeneath(w.root, "f", bytes("12345"));
  await using file = await openBeneath(w.root, "f");
  await assert.rejects(file.bytes(4), (error) => isError(error, "too_large"));
});

Deno.test("a stream that is cancelled or never read leaves no file open", async () => {
  await using w = await world();
  await writeBeneath(w.root, "f", new Uint8Array(2_000_000));
  const file = await openBeneath(w.root, "f");
  const reader = file.stream().getReader();
  await reader.read();
  await reader.cancel();
  await using _unread = await openBeneath(w.root, "f");
});

Deno.test("unsafe paths are refused by every operation, and nothing is written", async () => {
  await using w = await world();
  for (const path of ["../outside/x", "/tmp/x", "a/../../outside/x", ".git/hooks/x", "a//b", ""]) {
    await assert.rejects(writeBeneath(w.root, path, bytes("x")), unsafe, path);
    await assert.rejects(openBeneath(w.root, path), unsafe, path);
    await assert.rejects(removeBeneath(w.root, path), unsafe, path);
    assert.throws(() => mkdirBeneath(w.root, path), unsafe, path);
    assert.throws(() => lstatBeneath(w.root, path), unsafe, path);
  }
  await w.untouched();
  assert.deepEqual([...Deno.readDirSync(w.root)], []);
});

Deno.test("a symbolic link is never followed: as the file", async () => {
  await using w = await world();
  for (const target of [`${w.outside}/secret`, "../outside/secret", "nowhere", "loop", "inside"]) {
    await Deno.writeTextFile(`${w.root}/inside`, "inside");
    await Deno.symlink(target, `${w.root}/loop`);
    await assert.rejects(openBeneath(w.root, "loop"), unsafe, target);
    await assert.rejects(
      writeBeneath(w.root, "loop", bytes("x"), { replace: false }),
      (error) => isError(error, "conflict"),
    );
    await writeBeneath(w.root, "loop", bytes("mine"));
    assert.equal(await w.read("loop"), "mine", "the link was replaced, not followed");
    assert.equal(await w.read("inside"), "inside");
    await removeBeneath(w.root, "loop");
  }
  await w.untouched();
});

Deno.test("a symbolic link is never followed: as a directory", async () => {
  await using w = await world();
  await Deno.mkdir(`${w.root}/a`);
  for (const target of [w.outside, "../../outside", "."]) {
    await Deno.symlink(target, `${w.root}/a/link`);
    for (const path of ["a/link/secret", "a/link/deep/er/x"]) {
      await assert.rejects(openBeneath(w.root, path), unsafe);
      await assert.rejects(writeBeneath(w.root, path, bytes("x")), unsafe);
      await assert.rejects(removeBeneath(w.root, path), unsafe);
      assert.throws(() => mkdirBeneath(w.root, path), unsafe);
    }
    assert.throws(() => mkdirBeneath(w.root, "a/link"), unsafe);
    assert.equal(lstatBeneath(w.root, "a/link")?.isSymlink, true);
    await removeBeneath(w.root, "a/link");
    assert.equal(lstatBeneath(w.root, "a/link"), null);
  }
  await w.untouched();
});

Deno.test("removing a directory removes the links in it, not what they point to", async () => {
  await using w = await world();
  await Deno.mkdir(`${w.root}/a/b`, { recursive: true });
  await Deno.symlink(w.outside, `${w.root}/a/b/link`);
  await Deno.symlink(`${w.outside}/secret`, `${w.root}/a/file`);
  await removeBeneath(w.root, "a");
  assert.equal(lstatBeneath(w.root, "a"), null);
  await removeBeneath(w.root, "a");
  await w.untouched();
});

Deno.test("what is no regular file is not opened, and does not hang", async () => {
  await using w = await world();
  await run(["mkfifo", `${w.root}/pipe`]);
  await Deno.mkdir(`${w.root}/dir`);
  await assert.rejects(openBeneath(w.root, "pipe"), /special file/);
  await assert.rejects(openBeneath(w.root, "dir"), /a directory/);
  await assert.rejects(
    writeBeneath(w.root, "dir", bytes("x")),
    (error) => isError(error, "conflict"),
  );
});

Deno.test("what is not there is `not_found`, and a file in a directory's place is refused", async () => {
  await using w = await world();
  await writeBeneath(w.root, "file", bytes("x"));
  await assert.rejects(openBeneath(w.root, "nope"), absent);
  await assert.rejects(openBeneath(w.root, "no/such/dir"), absent);
  assert.equal(lstatBeneath(w.root, "no/such/dir"), null);
  for (const path of ["file/x", "file/x/y"]) {
    await assert.rejects(openBeneath(w.root, path), unsafe);
    await assert.rejects(writeBeneath(w.root, path, bytes("y")), unsafe);
  }
  assert.throws(() => mkdirBeneath(w.root, "file"), unsafe);
});

Deno.test("a write that fails half-way leaves the old file and no part of the new", async () => {
  await using w = await world();
  await writeBeneath(w.root, "d/f", bytes("old"));
  const failing = new ReadableStream<Uint8Array>({
    pull(controller) {
      controller.enqueue(bytes("new"));
      controller.error(new Error("the source broke"));
    },
  });
  await assert.rejects(writeBeneath(w.root, "d/f", failing), /the source broke/);
  assert.equal(await w.read("d/f"), "old");
  assert.deepEqual([...Deno.readDirSync(`${w.root}/d`)].map((entry) => entry.name), ["f"]);
});

Deno.test("a directory that is swapped for a link while a file is written there is noticed", async () => {
  await using w = await world();
  await Deno.mkdir(`${w.root}/d`);
  const swapping = new ReadableStream<Uint8Array>({
    async pull(controller) {
      await Deno.rename(`${w.root}/d`, `${w.root}/moved`);
      await Deno.symlink(w.outside, `${w.root}/d`);
      controller.enqueue(bytes("x"));
      controller.close();
    },
  }, { highWaterMark: 0 });
  await assert.rejects(writeBeneath(w.root, "d/secret", swapping), unsafe);
  await w.untouched();
});

Deno.test("a root that is itself reached through a link is fine", async () => {
  await using w = await world();
  await Deno.symlink(w.root, `${w.root}/../alias`);
  await writeBeneath(`${w.root}/../alias`, "f", bytes("x"));
  assert.equal(await w.read("f"), "x");
});

Deno.test("the rules hold in a worker whose permissions are a directory, where Deno resolves links itself", async () => {
  await using w = await world();
  await writeBeneath(w.root, "f", bytes("plain"));
  await Deno.symlink(`${w.outside}/secret`, `${w.root}/link`);
  await Deno.symlink(w.outside, `${w.root}/dir`);
  const script = `
    import { openBeneath, writeBeneath } from ${
    JSON.stringify(new URL("../../lib/home/mod.ts", import.meta.url).href)
  };
    const root = Deno.args[0];
    const out = [];
    for (const path of ["f", "link", "dir/secret"]) {
      try {
        await using file = await openBeneath(root, path);
        out.push(new TextDecoder().decode(await file.bytes(100)));
      } catch (error) {
        out.push(error.code);
      }
      try {
        await writeBeneath(root, path, new TextEncoder().encode("new"));
        out.push("written");
      } catch (error) {
        out.push(error.code);
      }
    }
    console.log(JSON.stringify(out));
  `;
  await Deno.writeTextFile(`${w.root}/script.ts`, script);
  const config = new URL("../../deno.json", import.meta.url).pathname;
  const out = await run([
    Deno.execPath(),
    "run",
    "--quiet",
    "--no-prompt",
    "--no-check",
    `--config=${config}`,
    `--allow-read=${w.root}`,
    `--allow-write=${w.root}`,
    `${w.root}/script.ts`,
    w.root,
  ]);
  assert.deepEqual(JSON.parse(out), [
    "plain",
    "written",
    "unsafe_path",
    "written",
    "unsafe_path",
    "unsafe_path",
  ]);
  await w.untouched();
});
