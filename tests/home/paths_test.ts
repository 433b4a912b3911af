// deno-lint-ignore-file no-non-null-assertion
import assert from "node:assert/strict";
import { homeDir, homePaths, isError, makeHome, makeSocketDir } from "../../lib/home/mod.ts";
import { TempDir } from "../kit/mod.ts";

Deno.test("the home is SUBLET_HOME, else .sublet in the user's directory", () => {
  assert.equal(homeDir({ SUBLET_HOME: "/a/b/../c", HOME: "/home/me" }), "/a/c");
  assert.equal(homeDir({ SUBLET_HOME: "", HOME: "/home/me" }), "/home/me/.sublet");
  assert.throws(() => homeDir({}), (error) => isError(error, "config"));
});

Deno.test("everything of a home is in it", () => {
  const { root, ...paths } = homePaths("/home/me/.sublet");
  assert.equal(root, "/home/me/.sublet");
  for (const path of Object.values(paths)) assert.ok(path.startsWith(`${root}/`), path);
  assert.equal(new Set(Object.values(paths)).size, Object.keys(paths).length);
});

Deno.test("a home is made for its owner only, and made again without harm", async () => {
  await using dir = await TempDir.make();
  const paths = await makeHome(dir.join("a/home"));
  assert.equal((await Deno.stat(paths.root)).mode! & 0o777, 0o700);
  assert.ok((await Deno.stat(paths.tmp)).isDirectory);
  await makeHome(paths.root);
});

Deno.test("a home that cannot be made is `config`, and names it", async () => {
  await using dir = await TempDir.make();
  await Deno.writeTextFile(dir.join("file"), "");
  await assert.rejects(
    makeHome(dir.join("file/home")),
    (error) => isError(error, "config") && error.message.includes(dir.join("file/home")),
  );
});

Deno.test("a socket whose path is too long for the kernel is in a short directory of the user's", () => {
  const short = homePaths(`/${"a".repeat(80)}`);
  assert.equal(short.socket, `${short.root}/sublet.sock`);
  const long = homePaths(`/${"a".repeat(120)}`);
  const other = homePaths(`/${"a".repeat(121)}`);
  assert.match(long.socket, /^\/tmp\/sublet-\d+\/[0-9a-f]{20}\.sock$/);
  assert.notEqual(long.socket, other.socket);
  assert.equal(homePaths(`/${"é".repeat(60)}`).socket.startsWith("/tmp/"), true, "bytes count");
});

Deno.test("the directory of a socket outside the home must be the user's own and closed to others", async () => {
  await using dir = await TempDir.make();
  const at = (name: string) => ({ ...homePaths("/long"), socket: dir.join(name, "x.sock") });
  await makeSocketDir(at("new"));
  assert.equal((await Deno.stat(dir.join("new"))).mode! & 0o777, 0o700);
  await makeSocketDir(at("new"));
  await Deno.mkdir(dir.join("open"));
  await Deno.chmod(dir.join("open"), 0o755);
  await Deno.symlink(dir.join("new"), dir.join("link"));
  await Deno.writeTextFile(dir.join("file"), "");
  for (const name of ["open", "link", "file"]) {
    await assert.rejects(makeSocketDir(at(name)), (error) => isError(error, "config"), name);
  }
  await makeSocketDir(homePaths("/home/me"));
});
