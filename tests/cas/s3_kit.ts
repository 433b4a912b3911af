/** @module Servers of S3 for tests, and calls of them behind a store's back. */

import { type Cid, type Damage, damagedObject } from "../../lib/cas/mod.ts";
import { objectKey } from "../../lib/cas/objects.ts";
import { signed } from "../../lib/cas/s3_sign.ts";
import { type BucketServer, findProgram, freePort, startServer } from "./bucket_kit.ts";

export const MOTO = findProgram("SUBLET_TEST_MOTO", "moto_server");
export const MINIO = findProgram("SUBLET_TEST_MINIO", "minio");

const KEYS = { accessKeyId: "sublet-test", secretAccessKey: "sublet-test-secret", expiresAt: null };

/** The variables of whoever uses the server at `url`. */
export function s3Env(url: string): Record<string, string> {
  return {
    AWS_ACCESS_KEY_ID: KEYS.accessKeyId,
    AWS_SECRET_ACCESS_KEY: KEYS.secretAccessKey,
    AWS_ENDPOINT_URL: url,
    AWS_EC2_METADATA_DISABLED: "true",
    HOME: "/nonexistent",
  };
}

/** Start moto's server. */
export async function startMoto(): Promise<BucketServer> {
  const port = freePort();
  return await startServer(
    [MOTO ?? "", "-H", "127.0.0.1", "-p", String(port)],
    `http://127.0.0.1:${port}`,
    "/moto-api/",
  );
}

/** Start MinIO on the directory `data`. */
export async function startMinio(data: string): Promise<BucketServer> {
  const port = freePort();
  const address = `127.0.0.1:${port}`;
  return await startServer(
    [
      MINIO ?? "",
      "server",
      data,
      "--address",
      address,
      "--console-address",
      `127.0.0.1:${freePort()}`,
    ],
    `http://${address}`,
    "/minio/health/ready",
    {
      MINIO_ROOT_USER: KEYS.accessKeyId,
      MINIO_ROOT_PASSWORD: KEYS.secretAccessKey,
      MINIO_BROWSER: "off",
      HOME: data,
    },
  );
}

/** A signed call of the server at `base`; the answer's body. Fails unless it succeeds. */
export async function callS3(
  base: string,
  method: string,
  path: string,
  body?: Uint8Array<ArrayBuffer>,
): Promise<Uint8Array<ArrayBuffer>> {
  const url = new URL(path, base);
  const headers = await signed(
    { method, url, ...(body === undefined ? {} : { body }) },
    KEYS,
    { service: "s3", region: "us-east-1", at: Date.now() },
  );
  const init = { method, headers, ...(body === undefined ? {} : { body }) };
  let answer = await fetch(url, init);
  // MinIO says that it is ready some time before it is.
  for (let tries = 0; answer.status === 503 && tries < 100; tries++) {
    await answer.body?.cancel();
    await new Promise((resolve) => setTimeout(resolve, 100));
    answer = await fetch(url, init);
  }
  const bytes = await answer.bytes();
  if (!answer.ok) {
    throw new Error(`${method} ${url}: ${answer.status} ${new TextDecoder().decode(bytes)}`);
  }
  return bytes;
}

/** Damage the object of `cid` in `place` (`/bucket/prefix/`), in place. */
export async function damageS3(base: string, place: string, cid: Cid, how: Damage): Promise<void> {
  const path = place + objectKey(cid);
  await callS3(base, "PUT", path, damagedObject(await callS3(base, "GET", path), how));
}
