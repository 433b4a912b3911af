/**
 * @module Our client of a store against a real piloop 0.3.1 `cas serve`, which has HEAD, GET and PUT alone.
 * `SUBLET_TEST_PILOOP` names its executable; without it the test is skipped.
 */

import assert from "node:assert/strict";
import { checkCas, cidOf, openHttpCas } from "../../lib/cas/mod.ts";
import { openHttpClient } from "../../lib/net/mod.ts";
import { Cluster } from "./cluster.ts";
import { freePort, PILOOP, Piloop, piloopCampaign } from "./piloop_kit.ts";

const SKIPPED = PILOOP === null ? " (skipped: SUBLET_TEST_PILOOP names no piloop)" : "";

const CAMPAIGN = piloopCampaign('name = "store"\nevaluate = ["echo", "METRIC score=1"]');

/** Bytes of a pattern that does not compress. */
function noise(length: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(length);
  for (let at = 0; at < length; at += 65_536) {
    crypto.getRandomValues(bytes.subarray(at, at + 65_536));
  }
  return bytes;
}

Deno.test({
  name: `our client keeps the contract of a store over a piloop one${SKIPPED}`,
  ignore: PILOOP === null,
  async fn() {
    await using cluster = await Cluster.make();
    const { programs, root } = cluster;
    await using peer = new Piloop(programs, PILOOP ?? "");
    const repo = `${root}/repo`;
    await programs.write("repo/piloop.toml", CAMPAIGN);
    await programs.write("repo/brief.md", "Make the number larger.\n");
    await programs.git(repo, "init", "--quiet", "--initial-branch=main");
    await programs.git(repo, "add", "--all");
    await programs.git(repo, "commit", "--quiet", "--message", "first");
    // The home's database comes with its first campaign.
    await peer.run("peer", "init", repo);
    const token = /plt_[\w-]+/.exec(await peer.run("peer", "token", "create", "o1"))?.[0] ?? "";
    const port = freePort();
    await peer.listen("peer", ["cas", "serve"], port);
    const client = openHttpClient({ server: `http://127.0.0.1:${port}`, token });
    await using cas = openHttpCas(client, { tmp: root, ownsClient: true });
    await checkCas(() => Promise.resolve(cas), { scratch: root });

    const large = noise(20_000_000);
    const text = new TextEncoder().encode("the quick brown fox\n".repeat(100_000));
    for (const data of [large, text, new Uint8Array(0)]) {
      const cid = cidOf(data);
      assert.equal(await cas.putStream(new Blob([data]).stream()), cid);
      assert.equal(cidOf(await cas.get(cid) ?? noise(1)), cid);
    }
    const known = [cidOf(large), cidOf(text), cidOf(noise(10))];
    assert.deepEqual(await cas.missing(known), known.slice(2));
  },
});
