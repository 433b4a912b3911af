/** @module Figures of large blobs over HTTP. */

import { cidOf } from "../../lib/cas/mod.ts";
import { TempDir } from "../kit/mod.ts";
import { log, median, noise } from "./cas_data.ts";
import {
  Absent,
  request,
  type Service,
  startBazelRemote,
  startOurs,
  startPiloop,
} from "./cas_services.ts";
import type { Figure } from "./figure.ts";
import { RawConnection } from "./raw_client.ts";

const MIB = 1 << 20;
const LARGE = 256 * MIB;
const ROUNDS = 5;
/** Connections of an upload in parts, and bytes of a part. */
const LANES = 4;
const PART = 16 * MIB;

/** Send a request with `body` on a connection of its own; its status. */
async function send(port: number, head: Uint8Array, body: Uint8Array): Promise<number> {
  using connection = await RawConnection.open(port);
  return await sendOn(connection, head, body);
}

async function sendOn(
  connection: RawConnection,
  head: Uint8Array,
  body: Uint8Array,
): Promise<number> {
  await connection.send(head);
  for (let at = 0; at < body.length; at += MIB) {
    await connection.send(body.subarray(at, at + MIB));
  }
  return (await connection.answer()).status;
}

/** The head alone of a request with a body of `length` bytes. */
function head(
  service: Service,
  method: string,
  path: string,
  length: number,
  more = "",
): Uint8Array {
  return new TextEncoder().encode(
    `${method} ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n${service.fields}${more}Content-Length: ${length}\r\n\r\n`,
  );
}

/** MB/s (10^6) of sending `body`. */
async function upload(service: Service, path: string, body: Uint8Array): Promise<number> {
  const started = performance.now();
  const status = await send(service.port, head(service, "PUT", path, body.length), body);
  if (status !== service.created) throw new Error(`${service.name} answered ${status}`);
  return body.length / (performance.now() - started) / 1000;
}

/** MB/s (10^6) of sending `body` in parts over several connections. */
async function uploadInParts(service: Service, body: Uint8Array): Promise<number> {
  // Whoever sends a blob knows its address, here as for a PUT.
  const cid = cidOf(body);
  const started = performance.now();
  const begun = await fetch(`http://127.0.0.1:${service.port}/v1/cas/uploads`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ cid, length: body.length }),
  });
  const { id } = await begun.json();
  let next = 0;
  await Promise.all(Array.from({ length: LANES }, async () => {
    using connection = await RawConnection.open(service.port);
    while (next < body.length) {
      const from = next;
      next += PART;
      const part = body.subarray(from, from + PART);
      const fields = `Upload-Offset: ${from}\r\n`;
      const start = head(service, "PATCH", `/v1/cas/uploads/${id}`, part.length, fields);
      const status = await sendOn(connection, start, part);
      if (status >= 300) throw new Error(`${service.name} answered ${status}`);
    }
  }));
  return body.length / (performance.now() - started) / 1000;
}

/** MB/s (10^6) of receiving `path`, and milliseconds to its first byte. */
async function receive(service: Service, path: string): Promise<{ speed: number; first: number }> {
  using connection = await RawConnection.open(service.port);
  const started = performance.now();
  let first = 0;
  await connection.send(request(service, "GET", path));
  const answer = await connection.answer(false, () => first = performance.now() - started);
  if (answer.status !== 200) throw new Error(`${service.name} answered ${answer.status}`);
  return { speed: answer.body / (performance.now() - started) / 1000, first };
}

/** What one round of a service gave. */
interface Round {
  readonly put: number;
  readonly parts: number;
  readonly get: number;
  readonly first: number;
  /** The first GET of a process that knows nothing of the blob yet. */
  readonly cold: number;
  /** MiB. */
  readonly peak: number;
}

async function round(kind: "cas" | "plain", root: string, body: Uint8Array): Promise<Round> {
  await using warm = await startOurs(kind, root);
  const path = warm.path(body);
  const put = await upload(warm, path, body);
  const got = await receive(warm, path);
  await using fresh = await startOurs(kind, root);
  const cold = await receive(fresh, path);
  const other = body.slice(0, body.length - 1);
  const parts = kind === "cas" ? await uploadInParts(fresh, other) : NaN;
  const peak = Math.max(warm.peak(), fresh.peak());
  return { put, parts, get: got.speed, first: got.first, cold: cold.speed, peak };
}

/** The two services take turns, so that what else the machine does meets both. */
async function besidePlain(body: Uint8Array): Promise<Figure[]> {
  const ours: Round[] = [];
  const plain: Round[] = [];
  for (let i = 0; i < ROUNDS; i++) {
    await using directory = await TempDir.make("sublet-bench-");
    plain.push(await round("plain", directory.path, body));
    ours.push(await round("cas", directory.path, body));
  }
  const of = (rounds: Round[], key: keyof Round) => median(rounds.map((one) => one[key]));
  const row = (what: string, value: number, unit: string, conditions: string, target?: string) => ({
    name: `sublet: ${what} of 256 MiB`,
    value: Math.round(value * 10) / 10,
    unit,
    conditions: `noise, median of ${ROUNDS}: ${conditions}`,
    ...(target === undefined ? {} : { target }),
  });
  const pair = (
    what: string,
    key: "put" | "get" | "cold",
    beside: string,
    note: string,
    target: string,
  ) => {
    const [mine, theirs] = [of(ours, key), of(plain, key)];
    return [
      row(what, mine, "MB/s", note),
      row(
        what,
        100 * mine / theirs,
        "%",
        `${note}; of ${beside}: ${theirs.toFixed(0)} MB/s`,
        target,
      ),
    ];
  };
  return [
    ...pair("PUT", "put", "receiving to disk unhashed, unsynced", "verified, durable", ">= 95"),
    row(
      "PUT in parts",
      of(ours, "parts"),
      "MB/s",
      `${LANES} connections, verified, durable`,
      ">= 600",
    ),
    ...pair("GET", "get", "a plain file server", "what was put or read lately", ">= 80"),
    row("GET", of(ours, "first"), "ms", "to the first byte", "< 10"),
    ...pair("GET", "cold", "a plain file server", "first read of a new process, hashed", ">= 80"),
    row(
      "all",
      Math.max(...ours.map((one) => one.peak)),
      "MiB",
      `peak memory; the plain one's ${of(plain, "peak").toFixed(0)}`,
      "< 150",
    ),
  ];
}

/** What others do with the same. */
async function others(body: Uint8Array): Promise<Figure[]> {
  const figures: Figure[] = [];
  for (const start of [startBazelRemote, startPiloop]) {
    await using directory = await TempDir.make("sublet-bench-");
    const found = await start(directory.path);
    if (found instanceof Absent) {
      figures.push({
        name: `${found.name}: 256 MiB`,
        value: NaN,
        unit: "",
        conditions: `not measured: ${found.why}`,
      });
      continue;
    }
    await using service = found;
    const path = service.path(body);
    const put = await upload(service, path, body);
    const { speed } = await receive(service, path);
    const conditions = "noise, once";
    figures.push({
      name: `${service.name}: PUT of 256 MiB`,
      value: Math.round(put),
      unit: "MB/s",
      conditions,
    });
    figures.push({
      name: `${service.name}: GET of 256 MiB`,
      value: Math.round(speed),
      unit: "MB/s",
      conditions,
    });
  }
  return figures;
}

/** A blob that compresses. */
async function compressible(): Promise<Figure[]> {
  const body = log(LARGE);
  await using directory = await TempDir.make("sublet-bench-");
  await using service = await startOurs("cas", directory.path);
  const speeds: number[] = [];
  for (let i = 0; i < 3; i++) {
    const one = body.subarray(0, body.length - i);
    speeds.push(await upload(service, service.path(one), one));
  }
  return [{
    name: "sublet: PUT of 256 MiB",
    value: Math.round(median(speeds)),
    unit: "MB/s",
    conditions: "lines of a log, compressed, median of 3",
  }];
}

/** Many uploads at once. */
async function crowd(): Promise<Figure[]> {
  const [count, size] = [64, Number(Deno.env.get("SUBLET_BENCH_UPLOAD_MIB") || 64) * MIB];
  const body = noise(size, 3);
  await using directory = await TempDir.make("sublet-bench-");
  await using service = await startOurs("cas", directory.path);
  const started = performance.now();
  await Promise.all(Array.from({ length: count }, async (_, i) => {
    const part = body.subarray(0, size - i);
    const path = service.path(part);
    const status = await send(service.port, head(service, "PUT", path, part.length), part);
    if (status !== 201) throw new Error(`${service.name} answered ${status}`);
  }));
  const seconds = (performance.now() - started) / 1000;
  const what = `${count} uploads of ${size / MIB} MiB at once`;
  return [
    {
      name: `sublet: ${what}`,
      value: Math.round(service.peak()),
      unit: "MiB",
      conditions: "peak memory of the server; SUBLET_BENCH_UPLOAD_MIB=256 for larger ones",
      target: "< 250",
    },
    {
      name: `sublet: ${what}`,
      value: Math.round(count * size / seconds / 1e6),
      unit: "MB/s",
      conditions: "all together",
    },
  ];
}

/** PUT and GET of 256 MiB. */
export async function largeBlobs(): Promise<Figure[]> {
  const body = noise(LARGE, 7);
  return [
    ...await besidePlain(body),
    ...await others(body),
    ...await compressible(),
    ...await crowd(),
  ];
}
