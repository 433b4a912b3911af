/** @module Figures of the store's HTTP service. */

import { type Cid, cidOf } from "../../lib/cas/mod.ts";
import { TempDir } from "../kit/mod.ts";
import type { Figure } from "./figure.ts";
import { rate, RawConnection } from "./raw_client.ts";

const LARGE = 256 << 20;
const CONNECTIONS = [1, 8, 32];
const TARGETS: Record<string, string> = {
  "PUT 32": ">= 2,500",
  "GET 32": ">= 12,000",
  "HEAD 32": ">= 20,000",
};

/** A server process. */
class Server implements AsyncDisposable {
  private constructor(readonly process: Deno.ChildProcess, readonly port: number) {}

  static async start(kind: "cas" | "plain", root: string): Promise<Server> {
    const script = new URL("./cas_server.ts", import.meta.url).pathname;
    const process = new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", "--no-check", script, kind, root],
      stdout: "piped",
    }).spawn();
    const reader = process.stdout.pipeThrough(new TextDecoderStream()).getReader();
    const { value } = await reader.read();
    await reader.cancel();
    return new Server(process, Number(value));
  }

  /** Its largest memory so far, in MiB. */
  peak(): number {
    const status = Deno.readTextFileSync(`/proc/${this.process.pid}/status`);
    return Number(/VmHWM:\s+(\d+) kB/.exec(status)?.[1]) / 1024;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.process.kill("SIGKILL");
    await this.process.status;
  }
}

/** Noise that is the same in every run. */
function noise(length: number, seed: number): Uint8Array<ArrayBuffer> {
  const words = new Uint32Array(Math.ceil(length / 4));
  let state = seed | 1;
  for (let i = 0; i < words.length; i++) {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    words[i] = state;
  }
  return new Uint8Array(words.buffer, 0, length);
}

function request(method: string, cid: Cid, body?: Uint8Array): Uint8Array {
  const length = body === undefined ? "" : `Content-Length: ${body.length}\r\n`;
  const head = new TextEncoder().encode(
    `${method} /v1/cas/${cid} HTTP/1.1\r\nHost: 127.0.0.1\r\n${length}\r\n`,
  );
  const whole = new Uint8Array(head.length + (body?.length ?? 0));
  whole.set(head);
  if (body !== undefined) whole.set(body, head.length);
  return whole;
}

/** So many different blobs of 1 KiB. */
function blobs(count: number, seed: number): Uint8Array<ArrayBuffer>[] {
  const all = noise(count * 1024, seed);
  return Array.from({ length: count }, (_, i) => all.slice(i * 1024, (i + 1) * 1024));
}

async function small(): Promise<Figure[]> {
  const figures: Figure[] = [];
  await using directory = await TempDir.make("sublet-bench-");
  await using server = await Server.start("cas", directory.path);
  const add = (method: string, connections: number, value: number) => {
    const target = TARGETS[`${method} ${connections}`];
    figures.push({
      name: `CAS ${method} of 1 KiB`,
      value: Math.round(value),
      unit: "/s",
      conditions: `${connections} connections${method === "PUT" ? ", durable" : ""}`,
      ...(target === undefined ? {} : { target }),
    });
  };
  const known = blobs(1000, 99);
  const cids = known.map((blob) => cidOf(blob));
  const puts = known.map((blob, i) => request("PUT", cids[i] as Cid, blob));
  await rate(server.port, 8, puts, 201);
  for (const connections of CONNECTIONS) {
    const fresh = blobs(connections === 1 ? 1500 : 6000, connections + 1);
    const requests = fresh.map((blob) => request("PUT", cidOf(blob), blob));
    add("PUT", connections, await rate(server.port, connections, requests, 201));
    for (const [method, times] of [["GET", 15], ["HEAD", 25]] as const) {
      const some = cids.map((cid) => request(method, cid));
      await rate(server.port, connections, some, 200);
      const rounds = Math.ceil(connections === 1 ? times / 3 : times);
      const many = Array.from({ length: rounds }, () => some).flat();
      add(method, connections, await rate(server.port, connections, many, 200));
    }
  }
  return figures;
}

/** MB/s (10^6) of sending `body` as `cid`. */
async function upload(port: number, cid: Cid, body: Uint8Array): Promise<number> {
  using connection = await RawConnection.open(port);
  const started = performance.now();
  const head =
    `PUT /v1/cas/${cid} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: ${body.length}\r\n\r\n`;
  await connection.send(new TextEncoder().encode(head));
  for (let at = 0; at < body.length; at += 1 << 20) {
    await connection.send(body.subarray(at, at + (1 << 20)));
  }
  const { status } = await connection.answer();
  if (status !== 201) throw new Error(`the server answered ${status}`);
  return body.length / (performance.now() - started) / 1000;
}

/** MB/s (10^6) of sending `body` as `cid` in parts, over four connections. */
async function uploadInParts(port: number, cid: Cid, body: Uint8Array): Promise<number> {
  using stack = new DisposableStack();
  const connections: RawConnection[] = [];
  for (let i = 0; i < 4; i++) connections.push(stack.use(await RawConnection.open(port)));
  const started = performance.now();
  const begun = await fetch(`http://127.0.0.1:${port}/v1/cas/uploads`, {
    method: "POST",
    body: JSON.stringify({ cid, length: body.length }),
  });
  const { id } = await begun.json();
  const size = 16 << 20;
  let next = 0;
  let last = 0;
  await Promise.all(connections.map(async (connection) => {
    for (let from = next; from < body.length; from = next) {
      next = from + size;
      const part = body.subarray(from, from + size);
      const head = `PATCH /v1/cas/uploads/${id} HTTP/1.1\r\nHost: 127.0.0.1\r\n` +
        `Upload-Offset: ${from}\r\nContent-Length: ${part.length}\r\n\r\n`;
      await connection.send(new TextEncoder().encode(head));
      for (let at = 0; at < part.length; at += 1 << 20) {
        await connection.send(part.subarray(at, at + (1 << 20)));
      }
      last = Math.max(last, (await connection.answer()).status === 201 ? 1 : 0);
    }
  }));
  if (last !== 1) throw new Error("the upload did not end");
  return body.length / (performance.now() - started) / 1000;
}

/** MB/s (10^6) of receiving `cid`, and milliseconds to its first byte. */
async function receive(port: number, cid: Cid): Promise<{ speed: number; first: number }> {
  using connection = await RawConnection.open(port);
  const started = performance.now();
  let first = 0;
  await connection.send(request("GET", cid));
  const answer = await connection.answer(false, () => first = performance.now() - started);
  if (answer.status !== 200) throw new Error(`the server answered ${answer.status}`);
  return { speed: answer.body / (performance.now() - started) / 1000, first };
}

const median = (values: readonly number[]) =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? NaN;

const ROUNDS = 5;

/** What one round of a server gave: MB/s, and milliseconds to the first byte. */
interface Round {
  readonly put: number;
  /** Of a server of its own, in parts; NaN: it takes none. */
  readonly parts: number;
  readonly get: number;
  readonly first: number;
  /** The first GET of a process that knows nothing of the blob yet. */
  readonly cold: number;
  readonly coldFirst: number;
  /** MiB. */
  readonly peak: number;
}

async function round(
  kind: "cas" | "plain",
  root: string,
  cid: Cid,
  body: Uint8Array,
): Promise<Round> {
  await using warm = await Server.start(kind, root);
  const put = await upload(warm.port, cid, body);
  const got = await receive(warm.port, cid);
  await using fresh = await Server.start(kind, root);
  const cold = await receive(fresh.port, cid);
  const peak = Math.max(warm.peak(), fresh.peak());
  const parts = kind === "cas" ? await partsRound(cid, body) : NaN;
  return {
    put,
    parts,
    get: got.speed,
    first: got.first,
    cold: cold.speed,
    coldFirst: cold.first,
    peak,
  };
}

async function partsRound(cid: Cid, body: Uint8Array): Promise<number> {
  await using directory = await TempDir.make("sublet-bench-");
  await using server = await Server.start("cas", directory.path);
  return await uploadInParts(server.port, cid, body);
}

/** The two servers take turns, so that what else the machine does meets both. */
async function large(what: string, body: Uint8Array): Promise<Figure[]> {
  const cid = cidOf(body);
  const ours: Round[] = [];
  const plain: Round[] = [];
  for (let i = 0; i < ROUNDS; i++) {
    await using directory = await TempDir.make("sublet-bench-");
    plain.push(await round("plain", directory.path, cid, body));
    ours.push(await round("cas", directory.path, cid, body));
  }
  const of = (rounds: Round[], key: keyof Round) => median(rounds.map((one) => one[key]));
  const figure = (
    name: string,
    value: number,
    unit: string,
    conditions: string,
    target?: string,
  ): Figure => ({
    name: `CAS ${name} of 256 MiB`,
    value: Math.round(value * 10) / 10,
    unit,
    conditions: `${what}, median of ${ROUNDS}: ${conditions}`,
    ...(target === undefined ? {} : { target }),
  });
  const pair = (
    name: string,
    key: "put" | "get" | "cold",
    beside: string,
    note: string,
    target?: string,
  ) => {
    const [mine, theirs] = [of(ours, key), of(plain, key)];
    const share = 100 * mine / theirs;
    return [
      figure(name, mine, "MB/s", note),
      figure(name, share, "%", `${note}; of ${beside}: ${theirs.toFixed(0)} MB/s`, target),
    ];
  };
  return [
    ...pair("PUT", "put", "receiving to disk unhashed, unsynced", "durable", ">= 85"),
    figure(
      "PUT",
      of(ours, "parts"),
      "MB/s",
      "durable, in parts of 16 MiB over 4 connections",
      ">= 600",
    ),
    ...pair("GET", "get", "a plain file server", "what was put or read lately", ">= 85"),
    figure("GET", of(ours, "first"), "ms", "to the first byte", "< 10"),
    ...pair("GET", "cold", "a plain file server", "first read of a new process, hashed on the way"),
    figure("GET", of(ours, "coldFirst"), "ms", "to the first byte of a new process"),
    figure(
      "PUT and GET",
      Math.max(...ours.map((one) => one.peak)),
      "MiB",
      `largest peak memory of the server; the plain one's ${of(plain, "peak").toFixed(0)}`,
      "< 150",
    ),
  ];
}

/** Measure everything: about a minute. */
export async function run(): Promise<Figure[]> {
  return [
    ...await small(),
    ...await large("noise", noise(LARGE, 7)),
  ];
}

if (import.meta.main) console.table(await run());
