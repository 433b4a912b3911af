/** @module Tests of what a process must be allowed to use a bucket. */

import assert from "node:assert/strict";
import { bucketReach } from "../../lib/cas/mod.ts";
import { TempDir } from "../kit/mod.ts";
import { FakeS3 } from "./s3_fake.ts";

Deno.test("a thread that may only do what its bucket takes can use it", async () => {
  await using home = await TempDir.make();
  await using elsewhere = await TempDir.make();
  await using fake = new FakeS3();
  const [config, token] = [elsewhere.join("config"), elsewhere.join("token")];
  await Deno.writeTextFile(config, `[default]\naws_access_key_id = a\naws_secret_access_key = b\n`);
  const env = {
    AWS_ENDPOINT_URL: fake.url,
    AWS_CONFIG_FILE: config,
    AWS_WEB_IDENTITY_TOKEN_FILE: token,
    HOME: "/nonexistent",
    SECRET_OF_ANOTHER: "x",
  };
  const table = { provider: "s3", url: "s3://bucket/p", storage_class: "STANDARD" };
  const reach = await bucketReach({ provider: "cached", remote: table }, home.path, env);
  assert.ok(reach?.net.includes(new URL(fake.url).host));
  assert.deepEqual(reach?.read, [config, "/nonexistent/.aws/credentials", token]);
  assert.equal("SECRET_OF_ANOTHER" in (reach?.env ?? {}), false);
  const worker = new Worker(new URL("./bucket_reach_worker.ts", import.meta.url), {
    type: "module",
    deno: {
      permissions: {
        net: [...reach?.net ?? []],
        read: [home.path, ...reach?.read ?? []],
        write: [home.path],
        env: false,
        run: false,
        ffi: false,
        sys: false,
        import: false,
      },
    },
  });
  try {
    const said = await new Promise((resolve, reject) => {
      worker.onmessage = ({ data }) => resolve(data);
      worker.onerror = (event) => reject(new Error(event.message));
      worker.postMessage({ table, home: home.path, env: reach?.env });
    });
    assert.equal(said, "2000000 NotCapable NotCapable");
  } finally {
    worker.terminate();
  }
});

Deno.test("the hosts of a bucket are those that its settings name, or the proxy's", async () => {
  const aws = { AWS_REGION: "eu-west-1", AWS_CONFIG_FILE: "/c", AWS_SHARED_CREDENTIALS_FILE: "/d" };
  const net = async (table: Record<string, unknown>, env: Record<string, string>) =>
    (await bucketReach(table, "/home", env))?.net;
  assert.deepEqual(await net({ provider: "s3", url: "s3://my-bucket" }, aws), [
    "my-bucket.s3.eu-west-1.amazonaws.com:443",
    "sts.eu-west-1.amazonaws.com:443",
    "169.254.169.254:80",
    "169.254.170.2:80",
  ]);
  assert.deepEqual(
    await net({ provider: "s3", url: "s3://my-bucket" }, { ...aws, HTTPS_PROXY: "http://p:1" }),
    ["p:1", "169.254.169.254:80", "169.254.170.2:80"],
  );
  const gcs = { provider: "gcs", bucket: "my-bucket", credentials_file: "key.json" };
  assert.deepEqual(await net(gcs, { HOME: "/me" }), [
    "storage.googleapis.com:443",
    "oauth2.googleapis.com:443",
    "sts.googleapis.com:443",
    "iamcredentials.googleapis.com:443",
    "metadata.google.internal:80",
  ]);
  assert.ok((await bucketReach(gcs, "/home", {}))?.read.includes("/home/key.json"));
  assert.equal(await bucketReach({ provider: "disk" }, "/home", {}), null);
});
