/** @module `sublet cas serve`: the home's store over HTTP, in a process of its own. */

import { statfs } from "node:fs/promises";
import {
  type Cas,
  casService,
  type ServiceLimits,
  type Serving,
  tend,
  Uploads,
} from "../cas/mod.ts";
import type { Config } from "../home/config/mod.ts";
import { makeHome, stderrLog, systemClock } from "../home/mod.ts";
import { Authenticator, serveHttp, Tokens } from "../net/mod.ts";
import { openSqlite } from "../store/mod.ts";
import type { Output } from "./output.ts";
import { openTable } from "./home_cas.ts";
import { readSettings } from "./serve/settings.ts";
import { aborted, endingSignal } from "./signals.ts";
import { serveStore } from "./store_lock.ts";

const SHUTDOWN_MS = 5000;

/** Serve until SIGINT or SIGTERM. Prints `cas serving on URL` once it answers. */
export async function serveCas(listen: string, output: Output): Promise<void> {
  const settings = await readSettings(listen);
  const { network, paths } = settings;
  if (network.listen === null) throw new Error("readSettings was given an address");
  await makeHome(paths.root);
  using _serving = serveStore(paths);
  using ending = endingSignal();
  await using db = await openSqlite(paths.db);
  const cas: Cas & Serving = await openTable(settings.config.cas, paths);
  await using _closing = new AsyncDisposableStack();
  if (Symbol.asyncDispose in cas) _closing.use(cas as unknown as AsyncDisposable);
  _closing.use(tend(cas, stderrLog));
  const { limits } = settings.config;
  const service = casService(cas, {
    who: new Authenticator(new Tokens(db, systemClock), network),
    uploads: await Uploads.open(cas, {
      directory: `${paths.tmp}/uploads`,
      perToken: limits.tokenUploads,
      bytesPerToken: limits.tokenUploadsBytes,
      maxAgeMs: limits.uploadHours * 60 * 60 * 1000,
    }),
    limits: serviceLimits(limits, cas.staging ?? paths.tmp),
    log: stderrLog,
  });
  const server = await serveHttp({
    fetch: (request, peer) => service.fetch(request, peer),
    listen: network.listen,
    tls: network.tls,
    log: stderrLog,
  });
  output.line(`cas serving on ${server.url}`);
  await aborted(ending);
  await server.shutdown(SHUTDOWN_MS);
}

/** The limits of the config, as the service takes them. `place` is where uploads are received. */
function serviceLimits(limits: Config["limits"], place: string): ServiceLimits {
  const { maxBlobBytes, tokenBytesPerSecond, tokenBytesPerDay } = limits;
  return {
    ...(maxBlobBytes === null ? {} : { maxBytes: maxBlobBytes }),
    ...(tokenBytesPerSecond === null ? {} : { bytesPerSecond: tokenBytesPerSecond }),
    ...(tokenBytesPerDay === null ? {} : { bytesPerDay: tokenBytesPerDay }),
    transfersPerToken: limits.tokenTransfers,
    stallMs: limits.stallSeconds * 1000,
    freeBytes: async () => {
      const { bavail, bsize } = await statfs(place);
      return bavail * bsize;
    },
  };
}
