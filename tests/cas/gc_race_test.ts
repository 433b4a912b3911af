/** @module A collection in another process beside 64 writers, and somebody who refers to what he was told is there. */

import assert from "node:assert/strict";
import type { Cid } from "../../lib/cas/mod.ts";
import { TempDir } from "../kit/mod.ts";
import { type BucketServer, needs } from "./bucket_kit.ts";
import { FAKE_GCS, makeBucket, startFakeGcs } from "./gcs_kit.ts";
import { STORES } from "./gc_stores.ts";
import { callS3, MINIO, startMinio } from "./s3_kit.ts";

const GRACE_MS = 4_000;
const WRITERS = 64;

interface Kind {
  readonly store: string;
  readonly start?: (data: string) => Promise<BucketServer>;
  readonly ignore?: boolean;
  readonly suffix?: string;
}

async function withMinio(data: string): Promise<BucketServer> {
  const server = await startMinio(data);
  await callS3(server.url, "PUT", "/collected");
  return server;
}

async function withGcs(): Promise<BucketServer> {
  const server = await startFakeGcs();
  await makeBucket(server.url, "collected");
  return server;
}

// Not moto: with 64 writers a put takes it seconds.
const minio = needs(MINIO, "no minio: go install github.com/minio/minio@latest");
const gcs = needs(FAKE_GCS, "no fake-gcs-server: see scripts/test_servers.sh --long");

const KINDS: Record<string, Kind> = {
  "a disk store": { store: "disk" },
  "a sqlite store": { store: "sqlite" },
  "a disk store behind caches": { store: "disk behind caches" },
  "a bucket of MinIO": { store: "s3", start: withMinio, ...minio },
  "a bucket of MinIO behind caches": { store: "s3 behind caches", start: withMinio, ...minio },
  "a bucket of fake-gcs-server": { store: "gcs", start: withGcs, ...gcs },
};

const content = (index: number) =>
  index % 50 === 0
    ? new Uint8Array(200_000).fill(index % 251).map((byte, at) => at < 4 ? index >> (at * 8) : byte)
    : new TextEncoder().encode(`content ${index}`);

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

for (const [name, { store, start, ignore = false, suffix = "" }] of Object.entries(KINDS)) {
  // A put takes as long as many questions to a disk: that of a bucket a request, that of SQLite a sync.
  const [contents, rounds] = store.startsWith("disk") ? [1_500, 30] : [300, 10];
  const pick = () => Math.floor(Math.random() * contents);

  Deno.test({
    name:
      `a collection of ${name} beside 64 writers takes nothing that was put or told to be there${suffix}`,
    ignore,
    async fn() {
      await using scratch = await TempDir.make();
      await using server = await start?.(scratch.join("server")) ?? null;
      const url = server?.url ?? "";
      const path = scratch.join("store");
      const names = scratch.join("names");
      await Deno.writeTextFile(names, "");
      const open = STORES[store];
      assert.ok(open !== undefined);
      await using cas = await open(path, url);
      const cids: Cid[] = [];
      for (let at = 0; at < contents; at++) cids.push(await cas.put(content(at)));
      await pause(GRACE_MS);
      const process = new Deno.Command(Deno.execPath(), {
        args: [
          "run",
          "-A",
          "--no-check",
          "tests/cas/gc_process.ts",
          store,
          path,
          url,
          names,
          String(GRACE_MS),
        ],
        stdin: "piped",
        stdout: "piped",
        stderr: "piped",
      }).spawn();
      const output = process.output();
      const referred = new Set<Cid>();
      let told = 0;
      let checked = 0;
      const refer = (cid: Cid) => {
        Deno.writeTextFileSync(names, `${cid}\n`, { append: true });
        referred.add(cid);
      };
      const writer = async () => {
        for (let round = 0; round < rounds; round++) {
          const index = pick();
          const cid = cids[index] as Cid;
          const before = Date.now();
          const there = round % 3 !== 0 && (await cas.missing([cid])).length === 0;
          if (there) told++;
          else await cas.put(content(index));
          if (Date.now() - before < GRACE_MS / 2) {
            const found = await cas.get(cid);
            // A machine that stood still for that long proves nothing.
            if (Date.now() - before < GRACE_MS - 1_000) {
              checked++;
              assert.deepEqual(
                found,
                content(index),
                there ? "it was told to be there" : "it was put",
              );
            }
          }
          await pause(Math.random() * 400);
          // Whoever refers to a blob so late that the grace may be over has to ask again.
          if (round % 5 === 0 && Date.now() - before < GRACE_MS / 2) refer(cid);
        }
      };
      try {
        await Promise.all(Array.from({ length: WRITERS }, writer));
      } finally {
        await process.stdin.close().catch(() => {});
      }
      const { stdout, stderr, success } = await output;
      assert.ok(success, new TextDecoder().decode(stderr));
      const { removed } = JSON.parse(new TextDecoder().decode(stdout));
      assert.ok(removed > 0, "nothing was collected");
      assert.ok(referred.size > 0 && told > 0 && checked > 0);
      for (const cid of referred) {
        assert.deepEqual(await cas.get(cid), content(cids.indexOf(cid)), `${cid} is lost`);
      }
    },
  });
}
