/** @module In the place of the worker's own Web Worker: starts a job, and dies. */

import { type FromWorker, SupervisorClient, type ToWorker } from "../../lib/lease/machine/rpc.ts";

const scope = globalThis as unknown as {
  onmessage: (event: MessageEvent<ToWorker>) => void;
  postMessage(message: FromWorker): void;
};
const supervisor = new SupervisorClient((message) => scope.postMessage(message));

scope.onmessage = async ({ data }) => {
  if (data.type === "answer" || data.type === "refusal") return supervisor.take(data);
  if (data.type !== "boot") return;
  const { home, pool: tag } = data.boot;
  const files = { stdout: `${home}/out`, stderr: `${home}/err` };
  const argv = ["sh", "-c", "setsid sleep 1000 & sleep 1000"];
  await supervisor.start({ argv, cwd: home, env: {}, tag, ...files });
  throw new Error("this worker fell over");
};
scope.postMessage({ type: "up" });
