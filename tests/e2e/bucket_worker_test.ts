/** @module A server and a worker whose store is a bucket: each reads and writes it itself, nothing serves it. */

import assert from "node:assert/strict";
import { needs } from "../cas/bucket_kit.ts";
import { callS3, MOTO, s3Env, startMoto } from "../cas/s3_kit.ts";
import { until } from "../kit/mod.ts";
import { Cluster, type EvaluationResult, PATIENT } from "./cluster.ts";

const moto = needs(
  MOTO,
  "no moto_server on PATH or in SUBLET_TEST_MOTO: pip install 'moto[server]'",
);
const TABLE = '[plugins.cas]\nprovider = "s3"\nurl = "s3://shared/blobs"\n';

Deno.test({
  name:
    `a worker whose store is a bucket evaluates, with no other rights than it needs${moto.suffix}`,
  ignore: moto.ignore,
  async fn() {
    await using bucket = await startMoto();
    await callS3(bucket.url, "PUT", "/shared");
    const env = { ...s3Env(bucket.url), AWS_DEFAULT_REGION: "us-east-1" };
    await using cluster = await Cluster.make({ timing: PATIENT });
    const { programs, root } = cluster;
    const config = await Deno.readTextFile(`${root}/server/config.toml`);
    await programs.write("server/config.toml", `${config}${TABLE}`);
    await cluster.serve(env);
    const [revision = ""] = await cluster.campaign([3]);
    const token = await cluster.token("ada");
    await programs.write("ada/config.toml", TABLE);
    await cluster.startWorker("ada", token, { env });
    await programs.write("gate", "");
    const argv = ["eval", revision, "--campaign", "steps", "--pool", "lab", "--no-wait", "--json"];
    const { job } = JSON.parse(await programs.sublet("server", argv)) as EvaluationResult;
    const ended = await until("the evaluation ends", async () => {
      const found = await cluster.job(job);
      return found.state === "open" ? null : found;
    }, 60);
    assert.equal(ended.state, "reported", JSON.stringify(ended));
    assert.equal(ended.leases[0]?.worker, "ada");
    await assert.rejects(Deno.lstat(`${root}/ada/store`), Deno.errors.NotFound);
  },
});
