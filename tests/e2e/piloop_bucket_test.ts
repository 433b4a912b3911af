/** @module A bucket of S3 that a real piloop 0.3.1 and we use, both ways. Skipped where there is none, or no moto. */

import assert from "node:assert/strict";
import { type Cas, cidOf } from "../../lib/cas/mod.ts";
import { openS3 } from "../../lib/cas/s3.ts";
import { noise } from "../cas/bucket_kit.ts";
import { callS3, damageS3, MOTO, s3Env, startMoto } from "../cas/s3_kit.ts";
import { until } from "../kit/mod.ts";
import { Cluster } from "./cluster.ts";
import { freePort, PILOOP, Piloop, piloopCampaign } from "./piloop_kit.ts";

const lacking = PILOOP === null ? "SUBLET_TEST_PILOOP names no piloop" : "there is no moto_server";
const ignore = PILOOP === null || MOTO === null;

/** What piloop wants before it makes a token. */
const CAMPAIGN = piloopCampaign(
  'name = "numbers"\nevaluate = ["sh", "-c", "echo METRIC score=1"]',
);

/** Blobs of each kind of object, also one that both send in parts. */
const BLOBS = (): Uint8Array<ArrayBuffer>[] => [
  new Uint8Array(0),
  new TextEncoder().encode("abc"),
  noise(200_000),
  new Uint8Array(3_000_000).map((_, i) => (i * i) >> 9),
  noise(9 * 1024 * 1024 + 5),
];

const without = (cas: Cas, blobs: readonly Uint8Array[]) => cas.missing(blobs.map(cidOf));

Deno.test({
  name: "what piloop puts into a bucket, we find there, and the other way round" +
    (ignore ? ` (SKIPPED: ${lacking})` : ""),
  ignore,
  async fn() {
    await using moto = await startMoto();
    await callS3(moto.url, "PUT", "/shared");
    await using cluster = await Cluster.make();
    const { programs } = cluster;
    await using peer = new Piloop(programs, PILOOP ?? "");
    await programs.write("repo/piloop.toml", CAMPAIGN);
    await programs.write("repo/brief.md", "Make the number larger.\n");
    await programs.git(`${programs.root}/repo`, "init", "--quiet", "--initial-branch=main");
    await programs.git(`${programs.root}/repo`, "add", "-A");
    await programs.git(`${programs.root}/repo`, "commit", "--quiet", "-m", "one");
    await peer.run("peer", "init", `${programs.root}/repo`);
    await programs.write(
      "peer/config.toml",
      '[plugins.cas]\nprovider = "s3"\nurl = "s3://shared/a%20b/c d"\n',
    );
    const token = /plt_[\w-]+/.exec(await peer.run("peer", "token", "create", "o1"))?.[0] ?? "";
    const port = freePort();
    const env = { ...s3Env(moto.url), AWS_DEFAULT_REGION: "us-east-1" };
    const argv = ["cas", "serve", "--listen", `127.0.0.1:${port}`];
    peer.start("peer", argv, { ...env, HOME: `${programs.root}/peer` });
    const dial = async (method: string, data: Uint8Array<ArrayBuffer>) =>
      await fetch(`http://127.0.0.1:${port}/v1/cas/${cidOf(data)}`, {
        method,
        headers: { authorization: `Bearer ${token}` },
        ...(method === "PUT" ? { body: data } : {}),
      });
    await until(
      "piloop serves",
      () => dial("HEAD", noise(1)).then((a) => a.status === 404, () => false),
      120,
    );

    await using cas = await openS3({ url: "s3://shared/a%20b/c d", env });
    const put = BLOBS();
    for (const data of put) {
      const answer = await dial("PUT", data);
      await answer.body?.cancel();
      assert.equal(answer.status, 201);
      assert.deepEqual(await cas.get(cidOf(data)), data);
      assert.equal(await cas.integrity(cidOf(data)), "ok");
      // It is theirs, whole, and stays.
      assert.equal(await cas.put(data), cidOf(data));
    }
    assert.deepEqual(await without(cas, put), []);
    assert.equal((await cas.usage()).blobs, put.length);

    for (const data of BLOBS().slice(2)) {
      await cas.put(data);
      const answer = await dial("GET", data);
      assert.equal(answer.status, 200);
      assert.deepEqual(await answer.bytes(), data);
    }

    // An object of theirs that was damaged is found, and mended by the next put.
    const [, , data = noise(1)] = put;
    await damageS3(moto.url, "/shared/a%2520b/c%20d/", cidOf(data), "flipped");
    assert.equal(await cas.integrity(cidOf(data)), "corrupt");
    await cas.put(data);
    const answer = await dial("GET", data);
    assert.deepEqual(await answer.bytes(), data);
  },
});
