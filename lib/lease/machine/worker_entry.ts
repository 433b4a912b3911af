/**
 * @module The Web Worker of a worker: everything that talks to the network or reads data runs here, where it may dial
 * the server and the store, use the home, and nothing else. What takes more, it asks the supervisor for.
 */

import { openCas } from "../../cas/mod.ts";
import { stderrLog } from "../../home/mod.ts";
import { openHttpClient } from "../../net/mod.ts";
import type { LeaseWorker } from "../worker.ts";
import { composeWorker } from "./compose.ts";
import { spareMemory } from "./spare_memory.ts";
import { type Boot, faultOf, type FromWorker, SupervisorClient, type ToWorker } from "./rpc.ts";

/** How often the supervisor is told that this thread's loop turns. */
const BEAT_MS = 5_000;
/** Until the first calls have gone out. */
const SETTLED_MS = 1_000;

const scope = globalThis as unknown as {
  onmessage: (event: MessageEvent<ToWorker>) => void;
  postMessage(message: FromWorker): void;
};
const post = (message: FromWorker) => scope.postMessage(message);
const supervisor = new SupervisorClient(post);
let worker: LeaseWorker | null = null;
/** What came before the worker was made. */
let wanted: "drain" | "stop" | "leave" | null = null;

async function run(boot: Boot): Promise<void> {
  const { home, token } = boot;
  const dial = (server: string) =>
    openHttpClient({ server, token, ...(boot.ca === null ? {} : { ca: boot.ca }) });
  using http = dial(boot.server);
  const cas = await openCas(boot.casTable, {
    home,
    tmp: `${home}/tmp`,
    env: boot.casEnv,
    ...(boot.ca === null ? {} : { ca: boot.ca }),
    client: dial,
  });
  worker = await composeWorker({
    http,
    cas,
    processes: supervisor,
    sessions: supervisor.sessions,
    sampleHost: () => supervisor.sample(),
    home,
    self: boot.self,
    key: boot.key,
    log: stderrLog,
    pool: boot.pool,
    version: boot.version,
    labels: boot.labels,
    once: boot.once,
    orphanExitSeconds: boot.orphanExitSeconds,
    minFreeBytes: boot.minFreeBytes,
    onRegistered: (registration) => {
      post({ type: "registered", worker: registration.worker, url: http.url });
      setTimeout(() => void spareMemory(), SETTLED_MS);
    },
  });
  if (wanted === "drain") worker.drain();
  if (wanted === "stop") worker.stop();
  if (wanted === "leave") worker.leave();
  const end = await worker.run();
  if (end.how === "refused") throw end.error;
  post({ type: "ended", how: end.how });
}

scope.onmessage = ({ data }) => {
  switch (data.type) {
    case "boot":
      setInterval(() => post({ type: "beat" }), BEAT_MS);
      run(data.boot).catch((error) => post({ type: "failed", error: faultOf(error) }));
      return;
    case "drain":
    case "stop":
    case "leave":
      wanted = data.type;
      worker?.[data.type]();
      return;
    default:
      supervisor.take(data);
  }
};
post({ type: "up" });
