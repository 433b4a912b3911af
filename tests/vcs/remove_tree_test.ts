import assert from "node:assert/strict";
import { TempDir } from "../kit/mod.ts";
import { removeTree } from "../../lib/vcs/remove_tree.ts";
import { systemIds } from "../../lib/home/mod.ts";

const NOBODY = 65534;

/** Run `removeTree(path)` as a user without privileges, and return what it said. */
async function removeAsNobody(dir: TempDir, path: string): Promise<string> {
  const module = await Deno.readTextFile(new URL("../../lib/vcs/remove_tree.ts", import.meta.url));
  const [script, cache] = [dir.join("script.ts"), dir.join("cache")];
  await Deno.writeTextFile(
    script,
    module.replace(/^import .*$/gm, "type Ids = { uuid(): string };") +
      `\nconsole.log(await removeTree(Deno.args[0], { uuid: () => crypto.randomUUID() }));\n`,
  );
  await Deno.mkdir(cache);
  await Deno.chown(cache, NOBODY, NOBODY);
  await Deno.chmod(dir.path, 0o755);
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", "--no-config", script, path],
    cwd: "/",
    clearEnv: true,
    env: { DENO_DIR: cache, PATH: "/usr/bin:/bin", NO_COLOR: "1" },
    uid: NOBODY,
    gid: NOBODY,
  }).output();
  assert.ok(success, new TextDecoder().decode(stderr));
  return new TextDecoder().decode(stdout).trim();
}

async function owned(path: string, uid = NOBODY): Promise<string> {
  await Deno.mkdir(path);
  await Deno.chown(path, uid, uid);
  return path;
}

const root = Deno.build.os !== "windows" && Deno.uid() === 0;

Deno.test({
  name: "directories that nobody may read, enter or change are removed by their owner",
  ignore: !root,
  async fn() {
    await using dir = await TempDir.make();
    const home = await owned(dir.join("home"));
    const tree = await owned(`${home}/tree`);
    const outside = await owned(dir.join("outside"));
    await Deno.writeTextFile(`${outside}/precious`, "x");
    await Deno.chmod(outside, 0o500);
    for (const name of ["a", "a/b", "a/b/c"]) await owned(`${tree}/${name}`);
    await Deno.writeTextFile(`${tree}/a/b/c/file`, "x", { mode: 0o400 });
    await Deno.symlink(outside, `${tree}/a/link`);
    await Deno.chmod(`${tree}/a/b/c`, 0o000);
    await Deno.chmod(`${tree}/a/b`, 0o500);
    await Deno.chmod(`${tree}/a`, 0o100);
    await Deno.chmod(tree, 0o500);
    assert.equal(await removeAsNobody(dir, tree), "null");
    await assert.rejects(Deno.lstat(tree), Deno.errors.NotFound);
    assert.equal(await Deno.readTextFile(`${outside}/precious`), "x");
    assert.equal(((await Deno.stat(outside)).mode ?? 0) & 0o777, 0o500, "no link was followed");
  },
});

Deno.test({
  name: "what another user left is set aside, so that its path is free",
  ignore: !root,
  async fn() {
    await using dir = await TempDir.make();
    const home = await owned(dir.join("home"));
    const tree = await owned(`${home}/tree`);
    await owned(`${tree}/theirs`, 0);
    await Deno.writeTextFile(`${tree}/theirs/file`, "x");
    const aside = await removeAsNobody(dir, tree);
    assert.match(aside, /\/home\/tree\.unremovable-[0-9a-f]{8}$/);
    await assert.rejects(Deno.lstat(tree), Deno.errors.NotFound);
    assert.ok((await Deno.stat(`${aside}/theirs/file`)).isFile);
  },
});

Deno.test("a file, a link and nothing at all are removed alike", async () => {
  await using dir = await TempDir.make();
  const path = dir.join("x");
  await Deno.symlink("nowhere", path);
  assert.equal(await removeTree(path, systemIds), null);
  await Deno.writeTextFile(path, "");
  assert.equal(await removeTree(path, systemIds), null);
  assert.equal(await removeTree(path, systemIds), null);
  await assert.rejects(Deno.lstat(path), Deno.errors.NotFound);
});
