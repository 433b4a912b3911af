/** @module Tests of sending versions: what a worker's clone takes from the CAS, and what the database remembers. */

import assert from "node:assert/strict";
import { GitVcs } from "../../lib/vcs/mod.ts";
import { Kit, PORTS, sure } from "./campaign_kit.ts";

Deno.test("a worker that has nothing gets the whole history, and a later one the same blob", async () => {
  await using kit = await Kit.make();
  const head = await kit.repo.commit("second version");
  const { id } = await kit.evaluations.register(kit.repo.path);
  const blobs = sure(await kit.evaluations.send(id, [head], [], 25));
  const replica = await new GitVcs(PORTS).replica(kit.dir.join("clone"));
  await replica.fetch(kit.cas, [head], () => Promise.resolve(blobs));
  assert.equal((await replica.version(head)).subject, "second version");
  assert.deepEqual(await kit.restarted().send(id, [head], [], 25), blobs);
});

Deno.test("a worker that has an older version gets what is newer", async () => {
  await using kit = await Kit.make();
  const old = await kit.repo.git("rev-parse", "HEAD");
  const { id } = await kit.evaluations.register(kit.repo.path);
  const replica = await new GitVcs(PORTS).replica(kit.dir.join("clone"));
  const ask = (revisions: readonly string[], have: readonly string[]) =>
    kit.evaluations.send(id, revisions, have, 25).then((blobs) => sure(blobs));
  await replica.fetch(kit.cas, [old], ask);
  const head = await kit.repo.commit("second version");
  assert.equal((await ask([head], [old])).length, 1);
  await replica.fetch(kit.cas, [head], ask);
  assert.equal((await replica.has([old, head])).size, 2);
});

Deno.test("what is no campaign, or no version of it, is not sent", async () => {
  await using kit = await Kit.make();
  const { id } = await kit.evaluations.register(kit.repo.path);
  const head = await kit.repo.git("rev-parse", "HEAD");
  await assert.rejects(kit.evaluations.send(id + 1, [head], [], 25), { code: "not_sent" });
  await assert.rejects(kit.evaluations.send(id, ["0".repeat(40)], [], 25), { code: "not_sent" });
});
