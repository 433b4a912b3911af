/** @module The stores that are collected beside writers, opened alike in two processes. */

import {
  type Cas,
  type Collectable,
  openCached,
  openDisk,
  openSqliteCas,
} from "../../lib/cas/mod.ts";
import { openGcs } from "../../lib/cas/gcs.ts";
import { openS3 } from "../../lib/cas/s3.ts";
import { nullLog, systemClock } from "../../lib/home/mod.ts";
import { s3Env } from "./s3_kit.ts";

/** The clock of a bucket may differ by so much, which its collections add to every grace. */
const SKEW_MS = 15 * 60_000;

type Store = Cas & Collectable & AsyncDisposable;

const keepEveryMs = 0;
const s3 = (url: string) =>
  openS3({ url: "s3://collected", env: s3Env(url), keepEveryMs, storageClass: "STANDARD" });
const cached = async (path: string, remote: Store) =>
  await openCached({
    path,
    remote,
    where: "the remote",
    clock: systemClock,
    log: nullLog,
  });

/** Open the store of a kind at `path`, or in the bucket of the server at `url`. */
export const STORES: Record<string, (path: string, url: string) => Promise<Store>> = {
  disk: (path) => openDisk({ path, keepEveryMs }),
  sqlite: (path) => openSqliteCas({ path, keepEveryMs }),
  "disk behind caches": async (path) =>
    // Each process has a cache of its own.
    await cached(`${path}-${Deno.pid}`, await openDisk({ path, keepEveryMs })),
  s3: (_, url) => s3(url),
  "s3 behind caches": async (path, url) => await cached(`${path}-${Deno.pid}`, await s3(url)),
  gcs: (_, url) =>
    openGcs({ bucket: "collected", env: { STORAGE_EMULATOR_HOST: url }, keepEveryMs }),
};

/** What a collection is told for a grace of `graceMs`. */
export function graceOf(kind: string, graceMs: number): number {
  return /^(s3|gcs)/.test(kind) ? graceMs - SKEW_MS : graceMs;
}
