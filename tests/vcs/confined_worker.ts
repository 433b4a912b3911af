/// <reference lib="deno.worker" />
/** @module A replica in a Web Worker that may run nothing: its git calls are messages to who started it. */

import { openDisk, parseCid } from "../../lib/cas/mod.ts";
import {
  type ExecResult,
  type ExecSpec,
  nullLog,
  systemClock,
  systemIds,
} from "../../lib/home/mod.ts";
import { GitVcs } from "../../lib/vcs/mod.ts";

const waiting: ((result: ExecResult) => void)[] = [];

function exec(spec: ExecSpec): Promise<ExecResult> {
  return new Promise((resolve) => {
    waiting.push(resolve);
    self.postMessage({ exec: spec });
  });
}

async function work(home: string, store: string, revision: string, blob: string): Promise<void> {
  const vcs = new GitVcs({
    processes: { exec },
    clock: systemClock,
    ids: systemIds,
    log: nullLog,
  });
  const cas = await openDisk({ path: store });
  const replica = await vcs.replica(`${home}/clones/1`);
  const ask = () => Promise.resolve([parseCid(blob)]);
  await replica.checkout(revision, `${home}/runs/1/worktree`, { cas, ask });
  const text = await Deno.readTextFile(`${home}/runs/1/worktree/a.txt`);
  const path = `${home}/runs/1/worktree`;
  await Deno.writeTextFile(`${path}/new.txt`, "new\n");
  await Deno.mkdir(`${path}/inner/.git/refs`, { recursive: true });
  await Deno.mkdir(`${path}/inner/.git/objects`);
  await Deno.writeTextFile(`${path}/inner/.git/HEAD`, "ref: refs/heads/main\n");
  await Deno.writeTextFile(`${path}/inner/x`, "x\n", { mode: 0o200 });
  const changed = await replica.changed(path, revision);
  const captured = await replica.capture(cas, path, revision);
  await replica.discard(path);
  const run = await Deno.permissions.query({ name: "run" });
  const { work, leftOut, notes } = captured;
  const mayRun = run.state === "granted";
  self.postMessage({ done: { text, mayRun, changed, work, leftOut, notes } });
}

self.onmessage = ({ data }) => {
  if ("result" in data) waiting.shift()?.(data.result);
  else {
    work(data.home, data.store, data.revision, data.blob).catch((error) =>
      self.postMessage({ done: { error: String(error) } })
    );
  }
};
