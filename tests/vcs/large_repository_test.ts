import assert from "node:assert/strict";
import { TempDir } from "../kit/mod.ts";
import { makeLargeRepository } from "../kit/large_repository.ts";
import { git } from "./kit.ts";

Deno.test("a large repository has as many commits and files as it was asked for, and is always the same", async () => {
  await using dir = await TempDir.make();
  const size = { commits: 30, files: 100, fileBytes: 300 };
  const one = await makeLargeRepository(dir.join("one"), size);
  const two = await makeLargeRepository(dir.join("two"), size);
  assert.equal(one.head, two.head);
  assert.equal(await git(one.path, "rev-list", "--count", "main"), "30");
  assert.equal((await git(one.path, "ls-files")).split("\n").length, 100);
  assert.equal(await git(one.path, "status", "--porcelain"), "");
  await git(one.path, "fsck", "--full", "--strict");
  const single = await makeLargeRepository(dir.join("single"), { ...size, commits: 1 });
  assert.equal((await git(single.path, "ls-files")).split("\n").length, 100);
});
