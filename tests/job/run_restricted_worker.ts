/** @module A web worker that may read and write its home alone, and runs one evaluation: the other side of a test. */

import { openMemory } from "../../lib/cas/mod.ts";
import { nullLog, type Processes, systemClock, systemIds } from "../../lib/home/mod.ts";
import { EvaluationRunner, type Site } from "../../lib/job/mod.ts";

/** What the test sends first. */
export interface Order {
  readonly home: string;
  readonly job: Record<string, unknown>;
  readonly blobs: readonly Uint8Array[];
  readonly bundle: string;
}

const scope = self as unknown as {
  onmessage: ((event: MessageEvent) => void) | null;
  postMessage(value: unknown): void;
};

const waiting = new Map<number, (answer: { value?: never; error?: string }) => void>();

/** Ask the test's side to do what only it may. */
function ask(method: string, args: unknown[]): Promise<never> {
  return new Promise((resolve, reject) => {
    const id = waiting.size + 1;
    waiting.set(id, ({ value, error }) => {
      if (error === undefined) resolve(value as never);
      else reject(new Error(error));
    });
    scope.postMessage({ id, method, args });
  });
}

const processes: Processes = {
  start: (spec) => ask("start", [spec]),
  wait: (ref) => ask("wait", [ref]),
  alive: (ref) => ask("alive", [ref]),
  stop: (ref, tag, graceMs, place) => ask("stop", [ref, tag, graceMs, place]),
  exec: (spec) => ask("exec", [spec]),
};

async function work({ home, job, blobs, bundle }: Order): Promise<unknown> {
  const cas = openMemory();
  const cids = await Promise.all(blobs.map((blob) => cas.put(blob)));
  const site: Site = {
    home,
    cas,
    processes,
    clock: systemClock,
    ids: systemIds,
    log: nullLog,
    send: () => Promise.resolve(cids.filter((cid) => cid === bundle)),
  };
  const runner = new EvaluationRunner(site);
  const stop = new AbortController().signal;
  const control = { lease: 1, stop, started: () => Promise.resolve(true) };
  const outcome = await runner.run(job, control);
  await runner.cleanup(job, 1);
  return outcome;
}

scope.onmessage = ({ data }: MessageEvent) => {
  if ("id" in data) return waiting.get(data.id)?.(data);
  work(data).then(
    (outcome) => scope.postMessage({ outcome }),
    (error) => scope.postMessage({ outcome: { failed: String(error) } }),
  );
};
