/** @module The rules of a store's contract about objects that were damaged behind its back. */

import { isError } from "../home/mod.ts";
import { type Bench, type Damage, inPieces, namesIn, type Rule, same } from "./check_kit.ts";
import type { Cas, Cid, Ranged, Sized, Upkeep } from "./contract.ts";
import { collect } from "./streams.ts";
import { rawFrame } from "./zstd_frame.ts";

const WAYS: readonly Damage[] = [
  "truncated",
  "empty",
  "flipped",
  "garbage",
  "followed by other bytes",
  "followed by another frame",
  "another blob's",
];

const text = (value: string) => new TextEncoder().encode(value);

/** The stored object `bytes` (one zstd frame), damaged. */
export function damagedObject(bytes: Uint8Array, how: Damage): Uint8Array<ArrayBuffer> {
  const middle = Math.floor(bytes.length / 2);
  switch (how) {
    case "truncated":
      return bytes.slice(0, bytes.length - 5);
    case "empty":
      return new Uint8Array(0);
    case "flipped":
      return Uint8Array.from(bytes, (byte, i) => i === middle ? byte ^ 1 : byte);
    case "garbage":
      return text("this is no zstd frame at all");
    case "followed by other bytes":
      return new Uint8Array([...bytes, 0]);
    case "followed by another frame":
      return new Uint8Array([...bytes, ...rawFrame(text("more"))]);
    case "another blob's":
      return rawFrame(text("the bytes of another blob"));
  }
}

/** Blobs of each kind of object: raw and small, raw and large, compressed and small, compressed and large. */
const KINDS = [[500, true], [400_000, true], [30_000, false], [400_000, false]] as const;

type Work = (data: Uint8Array<ArrayBuffer>, cid: Cid) => Promise<boolean>;

/** Whether `work` goes well with a damaged blob of each kind. */
async function each(bench: Bench, how: Damage, name: string, work: Work): Promise<boolean> {
  for (const [length, dense] of KINDS) {
    const data = bench.bytes(`${name} ${how}`, length, dense);
    const cid = await bench.cas.put(data);
    await bench.damage?.(cid, how);
    if (!await work(data, cid)) return false;
  }
  return true;
}

/** Whether `work` fails with `integrity`, and names the blob. */
async function refuses(cid: Cid, work: Promise<unknown>): Promise<boolean> {
  return await work.then(() => false, (error) => {
    return isError(error, "integrity") && error.message.includes(cid);
  });
}

async function deliversNothing({ cas, scratch }: Bench, cid: Cid): Promise<boolean> {
  const stream = async () => {
    const body = await cas.getStream(cid);
    if (body !== null) await collect(body.stream);
  };
  // Twice: what is remembered of the first read must not help the second.
  for (let i = 0; i < 2; i++) {
    if (!await refuses(cid, cas.get(cid)) || !await refuses(cid, stream())) return false;
  }
  const before = await namesIn(scratch);
  return await refuses(cid, cas.getFile(cid, `${scratch}/damaged`)) &&
    (await namesIn(scratch)).join() === before.join();
}

async function tellsOf(bench: Bench, cid: Cid): Promise<boolean> {
  const cas: Cas & Partial<Upkeep & Ranged & Sized> = bench.cas;
  const part = async () => {
    const body = await cas.getRange?.(cid, 0, 10);
    if (body !== null && body !== undefined) await collect(body.stream);
  };
  const found = await cas.integrity?.(cid) ?? "corrupt";
  // A store that is elsewhere may call a blob missing that cannot be read.
  const told = found === "corrupt" || found === "missing" && cas.list === undefined;
  return told &&
    (cas.getRange === undefined || await refuses(cid, part())) &&
    (cas.sizeOf === undefined || await cas.sizeOf(cid, { check: true }) === null);
}

function rules(how: Damage): Rule[] {
  return [
    [
      `no get delivers an object that is ${how}: it fails with integrity`,
      (bench) => each(bench, how, "get", (_, cid) => deliversNothing(bench, cid)),
    ],
    [
      `an object that is ${how} is found by a check, and no part of it is delivered`,
      (bench) => each(bench, how, "part of", (_, cid) => tellsOf(bench, cid)),
    ],
    [`a put repairs an object that is ${how}`, (bench) => {
      const { cas, damage, scratch } = bench;
      return each(bench, how, "repair", async (data, cid) => {
        await Deno.writeFile(`${scratch}/repair`, data);
        const puts = [
          () => cas.put(data),
          () => cas.putStream(inPieces(data, 50_000)),
          () => cas.putStream(inPieces(data, 50_000), { expectedCid: cid }),
          () => cas.putFile(`${scratch}/repair`),
        ];
        for (const put of puts) {
          await damage?.(cid, how);
          if (await put() !== cid || !same(await cas.get(cid), data)) return false;
        }
        return true;
      });
    }],
  ];
}

/** All of them. */
export const DAMAGE_RULES: readonly Rule[] = WAYS.flatMap(rules);
