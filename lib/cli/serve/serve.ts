/** @module `sublet serve`: listen, work, and stop in order. */

import { formatAddress, type Log, makeHome, makeSocketDir, stderrLog } from "../../home/mod.ts";
import { inProcessWorker } from "../../lease/machine/mod.ts";
import type { LimitView } from "../../lease/mod.ts";
import { type HttpServer, serveHttp } from "../../net/mod.ts";
import type { Output } from "../output.ts";
import { takeHome } from "../server_lock.ts";
import { selfCommand } from "../self.ts";
import { aborted, endingSignal, RESTART } from "../signals.ts";
import { VERSION } from "../version.ts";
import { serverApp } from "./app.ts";
import { compose, type Parts } from "./compose.ts";
import { readSettings, type Settings } from "./settings.ts";
import { rememberStart } from "./started.ts";

const SHUTDOWN_MS = 5000;
const DRAIN_SECONDS = 5;

/** Serve until SIGINT or SIGTERM. Prints `serving on …` once the server answers. */
export async function serve(listen: string | undefined, output: Output): Promise<void> {
  const settings = await readSettings(listen);
  const { paths } = settings;
  await makeHome(paths.root);
  await makeSocketDir(paths);
  using _home = await takeHome(paths);
  using ending = endingSignal();
  const log = stderrLog;
  await using parts = await compose(settings, log);
  await parts.engine.start();
  await parts.limits.load();
  await parts.evaluations.resume();
  await parts.agents.resume();
  const closing = new AbortController();
  const servers = await listenAll(settings, parts, closing.signal, log);
  const tcp = servers.find((server) => server.addr !== null);
  await rememberStart(paths, {
    listen: listen ?? null,
    address: tcp?.addr ? formatAddress(tcp.addr) : null,
  });
  output.line(`serving on ${tcp?.url ?? paths.socket}`);
  try {
    await work(settings, parts, ending, log);
  } finally {
    closing.abort();
    await parts.engine.close();
    await Promise.all(servers.map((server) => server.shutdown(SHUTDOWN_MS)));
  }
}

async function listenAll(
  settings: Settings,
  parts: Parts,
  closing: AbortSignal,
  log: Log,
): Promise<HttpServer[]> {
  const { network, paths } = settings;
  const urls: string[] = [];
  const fetch = serverApp(settings, parts, urls, closing, log);
  // The socket comes last: whoever waits for a server asks there, and an address that is taken is told before.
  const tcp = network.listen === null
    ? []
    : [await serveHttp({ fetch, listen: network.listen, tls: network.tls, log })];
  urls.push(...tcp.map((server) => server.url));
  try {
    const local = await serveHttp({ fetch, unix: paths.socket, log });
    urls.unshift(local.url);
    return [local, ...tcp];
  } catch (error) {
    await tcp[0]?.shutdown(0);
    throw error;
  }
}

/** Run the server's own worker, over the Unix socket as any other, until `ending` aborts. */
async function work(
  { config, paths }: Settings,
  { tokens, cas, limits }: Parts,
  ending: AbortSignal,
  log: Log,
): Promise<void> {
  const slots = ["executor.pools.serve.agents", "executor.pools.serve.evaluations"];
  const none = ({ value, configured }: LimitView) => value === 0 && configured === 0;
  if (limits.list().filter(({ key }) => slots.includes(key)).every(none)) {
    return await aborted(ending);
  }
  await using worker = inProcessWorker({
    socket: paths.socket,
    token: tokens.grantInternal("serve", "worker"),
    pool: "serve",
    home: paths.root,
    cas,
    version: VERSION,
    self: selfCommand([]),
    log,
    minFreeBytes: config.storage.minFreeGb * 2 ** 30,
  });
  await aborted(ending);
  if (ending.reason === RESTART) await worker.leave();
  else await worker.drain(DRAIN_SECONDS);
}
