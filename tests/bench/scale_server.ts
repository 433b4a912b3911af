/**
 * @module A lease server for the scale benchmark, in a process of its own. It submits jobs and tells its own use of the
 * machine when its stdin says so. `scale_server.ts FILE WORKERS`.
 */

import process from "node:process";
import { cidOf } from "../../lib/cas/mod.ts";
import type { JobRef } from "../../lib/lease/mod.ts";
import type { Tx } from "../../lib/store/mod.ts";
import { serveLeases } from "./lease_app.ts";
import { IdleKind } from "./lease_queue.ts";
import { answerLines } from "./lines.ts";

/** What it may be asked. */
export type ScaleQuestion =
  | { readonly ask: "usage" }
  /** All at once; answers when all are submitted. */
  | { readonly ask: "burst"; readonly jobs: number }
  /** One after another, each once the one before has started; answers the milliseconds that each took. */
  | { readonly ask: "trickle"; readonly jobs: number; readonly gapMs: number };

/** Its use of the machine so far. */
export interface Usage {
  readonly cpuSeconds: number;
  readonly rss: number;
  readonly peakRss: number;
  /** Of rss: what its objects take. */
  readonly heap: number;
  readonly live: number;
  readonly queued: number;
  readonly reachable: number;
}

/** Tells when a job has started. */
class TimedKind extends IdleKind {
  readonly waiting = new Map<string, (at: number) => void>();

  override started(tx?: Tx, job?: JobRef): Promise<void> {
    if (tx !== undefined && job !== undefined) {
      const told = this.waiting.get(job.key);
      tx.onCommit(() => told?.(performance.now()));
    }
    return Promise.resolve();
  }
}

async function serve(path: string, workers: number): Promise<void> {
  const kind = new TimedKind();
  const { db, engine, ready } = await serveLeases(path, workers, kind, { evaluations: 2 });
  const jobCid = cidOf(new Uint8Array([1]));
  const submit = (key: string) =>
    db.write((tx) =>
      engine.submit(tx, {
        kind: "idle",
        key,
        jobCid,
        requires: { runner: "process" },
        campaign: 1,
        repo: null,
      })
    );
  const startsIn = async (key: string): Promise<number> => {
    const { promise, resolve } = Promise.withResolvers<number>();
    kind.waiting.set(key, resolve);
    const from = performance.now();
    await submit(key);
    const at = await promise;
    kind.waiting.delete(key);
    return at - from;
  };
  const usage = async (): Promise<Usage> => {
    const { user, system } = process.cpuUsage();
    const status = await engine.status();
    const text = await Deno.readTextFile("/proc/self/status").catch(() => "");
    const peak = Number(/VmHWM:\s+(\d+) kB/.exec(text)?.[1] ?? 0) * 1024;
    return {
      cpuSeconds: (user + system) / 1e6,
      rss: Deno.memoryUsage().rss,
      peakRss: peak,
      heap: Deno.memoryUsage().heapTotal,
      live: status.jobs.running,
      queued: status.jobs.queued,
      reachable: status.workers.reachable,
    };
  };
  console.log(JSON.stringify(ready));
  await answerLines(async (question) => {
    const asked = question as ScaleQuestion;
    if (asked.ask === "usage") return await usage();
    const keys = Array.from({ length: asked.jobs }, () => crypto.randomUUID());
    if (asked.ask === "burst") {
      await Promise.all(keys.map(submit));
      return null;
    }
    const took: number[] = [];
    for (const key of keys) {
      took.push(await startsIn(key));
      await new Promise((resolve) => setTimeout(resolve, asked.gapMs));
    }
    return took;
  });
}

if (import.meta.main) {
  const [path = "", workers = "1"] = Deno.args;
  await serve(path, Number(workers));
}
