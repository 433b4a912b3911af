/** @module Figures of many small blobs over HTTP, of all services. */

import { type Cid, cidOf } from "../../lib/cas/mod.ts";
import { TempDir } from "../kit/mod.ts";
import { blobs, median } from "./cas_data.ts";
import {
  Absent,
  request,
  type Service,
  startBazelRemote,
  startOurs,
  startPiloop,
} from "./cas_services.ts";
import type { Figure } from "./figure.ts";
import { rate } from "./raw_client.ts";

const TARGETS: Record<string, string> = {
  "PUT 32": ">= 5,000",
  "GET 32": ">= 18,000",
  "HEAD 32": ">= 30,000",
};

/** How many requests are sent to a service. */
interface Amounts {
  readonly connections: readonly number[];
  readonly puts: number;
  /** Rounds over a thousand blobs. */
  readonly gets: number;
  readonly heads: number;
}

const OURS: Amounts = { connections: [1, 8, 32], puts: 8000, gets: 25, heads: 40 };
const QUICK: Amounts = { connections: [32], puts: 8000, gets: 20, heads: 20 };
const SLOW: Amounts = { connections: [32], puts: 600, gets: 1, heads: 1 };

/** PUT, GET and HEAD of 1 KiB. */
export async function smallBlobs(): Promise<Figure[]> {
  const figures: Figure[] = [];
  const starts: [(root: string) => Promise<Service | Absent>, Amounts][] = [
    [(root) => startOurs("cas", root), OURS],
    [startBazelRemote, QUICK],
    [startPiloop, SLOW],
  ];
  for (const [start, amounts] of starts) {
    await using directory = await TempDir.make("sublet-bench-");
    const found = await start(directory.path);
    if (found instanceof Absent) {
      figures.push({
        name: `${found.name}: 1 KiB`,
        value: NaN,
        unit: "",
        conditions: `not measured: ${found.why}`,
      });
      continue;
    }
    await using service = found;
    figures.push(...await measure(service, amounts));
    if (service.name === "sublet") figures.push(await questions(service));
  }
  return figures;
}

async function measure(service: Service, amounts: Amounts): Promise<Figure[]> {
  const figures: Figure[] = [];
  const { created, port } = service;
  const known = blobs(1000, 99);
  const paths = known.map((data) => service.path(data));
  await rate(
    port,
    8,
    known.map((data, i) => request(service, "PUT", paths[i] ?? "", data)),
    created,
  );
  for (const connections of amounts.connections) {
    const alone = connections === 1;
    const fresh = blobs(alone ? 1500 : amounts.puts, connections + 1);
    const puts = fresh.map((data) => request(service, "PUT", service.path(data), data));
    const add = (method: string, value: number) =>
      figures.push(figure(service.name, method, connections, value));
    add("PUT", await rate(port, connections, puts, created));
    for (const [method, times] of [["GET", amounts.gets], ["HEAD", amounts.heads]] as const) {
      const some = paths.map((path) => request(service, method, path));
      await rate(port, connections, some, 200);
      const rounds = Math.ceil(alone ? times / 4 : times);
      add(
        method,
        await rate(port, connections, Array.from({ length: rounds }, () => some).flat(), 200),
      );
    }
  }
  return figures;
}

function figure(name: string, method: string, connections: number, value: number): Figure {
  const durable = method === "PUT" && name === "sublet" ? ", durable" : "";
  const target = name === "sublet" ? TARGETS[`${method} ${connections}`] : undefined;
  return {
    name: `${name}: ${method} of 1 KiB`,
    value: Math.round(value),
    unit: "/s",
    conditions: `${connections} connection${connections === 1 ? "" : "s"}${durable}`,
    ...(target === undefined ? {} : { target }),
  };
}

/** `missing` of 10,000 blobs that are all there. */
async function questions(service: Service): Promise<Figure> {
  const fresh = blobs(10_000, 4242);
  const cids: Cid[] = fresh.map((data) => cidOf(data));
  const puts = fresh.map((data) => request(service, "PUT", service.path(data), data));
  await rate(service.port, 32, puts, service.created);
  const body = JSON.stringify({ cids });
  const times: number[] = [];
  for (let i = 0; i < 7; i++) {
    const started = performance.now();
    const answer = await fetch(`http://127.0.0.1:${service.port}/v1/cas/missing`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body,
    });
    const { missing } = await answer.json();
    times.push(performance.now() - started);
    if (!answer.ok || missing.length > 0) throw new Error(`missing answered ${answer.status}`);
  }
  return {
    name: "sublet: missing of 10,000",
    value: median(times),
    unit: "ms",
    conditions: "all known, over HTTP, median of 7",
    target: "< 60",
  };
}
