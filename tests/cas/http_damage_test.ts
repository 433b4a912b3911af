/** @module Damaged blobs over HTTP: refused with a status while that can be told, and broken off otherwise. */

import assert from "node:assert/strict";
import { type Cas, type Cid, type Damage, openDisk, openSqliteCas } from "../../lib/cas/mod.ts";
import { TempDir } from "../kit/mod.ts";
import { noise } from "./bucket_kit.ts";
import { damageObject } from "./disk_kit.ts";
import { raw, serveStore } from "./http_kit.ts";
import { damageRows } from "./sqlite_kit.ts";

interface Kind {
  open(root: string): Promise<Cas & AsyncDisposable>;
  damage(root: string, cid: Cid, how: Damage): Promise<void>;
}

const KINDS: Record<string, Kind> = {
  disk: { open: (path) => openDisk({ path }), damage: damageObject },
  sqlite: { open: (path) => openSqliteCas({ path }), damage: damageRows },
};

/** Around the sizes of a read, a block and a chunk. */
const LENGTHS = [500, 66_000, 100_000, 131_073, 262_145, 600_000, 3_000_000];

/** Head and body of an answer. */
function parse(answer: string): { status: number; body: string; announced: number } {
  const end = answer.indexOf("\r\n\r\n");
  assert.ok(end > 0, `no answer: ${JSON.stringify(answer.slice(0, 200))}`);
  const head = answer.slice(0, end);
  return {
    status: Number(head.split(" ")[1]),
    announced: Number(/content-length: (\d+)/i.exec(head)?.[1]),
    body: answer.slice(end + 4),
  };
}

for (const [name, { open, damage }] of Object.entries(KINDS)) {
  Deno.test(`a damaged blob of a ${name} store is never sent whole, and never without an answer`, async () => {
    await using scratch = await TempDir.make();
    const root = scratch.join("store");
    await using store = await open(root);
    await using served = await serveStore(store, scratch.path);
    for (const dense of [true, false]) {
      for (const length of LENGTHS) {
        for (const how of ["flipped", "truncated", "followed by other bytes"] as const) {
          const data = noise(length);
          if (!dense) data.forEach((byte, at) => data[at] = byte & 0x1f);
          const cid = await store.put(data);
          await damage(root, cid, how);
          const answer = parse(
            await raw(
              served,
              `GET /v1/cas/${cid} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`,
            ),
          );
          const what = `${how} ${length} ${dense}`;
          if (answer.status === 500) {
            assert.equal(JSON.parse(answer.body).code, "integrity", what);
          } else {
            assert.equal(answer.status, 200, what);
            assert.ok(answer.body.length > 0 && answer.body.length < answer.announced, what);
            assert.ok(length > 65_536, what);
          }
        }
      }
    }
  });
}
