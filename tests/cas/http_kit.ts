/** @module A store that is served over a real socket, and its client. */

import { type Cas, casService, type CasServiceOptions, openHttpCas } from "../../lib/cas/mod.ts";
import { endHashPool } from "../../lib/cas/hash_pool.ts";
import { systemClock } from "../../lib/home/mod.ts";
import { openHttpClient, serveHttp } from "../../lib/net/mod.ts";

/** The system's clock, whose sleeps are a twentieth of what they should be. */
const HASTY = {
  ...systemClock,
  sleep: (ms: number, signal?: AbortSignal) => systemClock.sleep(ms / 20, signal),
};

/** A served store. */
export interface Served extends AsyncDisposable {
  readonly url: string;
  readonly host: string;
  readonly port: number;
  readonly cas: Cas;
}

/** Serve `store` on a free port, maybe through `around`, and open its client. */
export async function serveStore(
  store: Cas,
  tmp: string,
  options: CasServiceOptions = {},
  around: (request: Request, answer: () => Promise<Response>) => Promise<Response> = (_, answer) =>
    answer(),
): Promise<Served> {
  const service = casService(store, options);
  const server = await serveHttp({
    fetch: (request, peer) => around(request, async () => await service.fetch(request, peer)),
    listen: { host: "127.0.0.1", port: 0 },
  });
  const client = openHttpClient({ server: server.url });
  const cas = openHttpCas(client, { tmp, ownsClient: true, clock: HASTY });
  return {
    url: server.url,
    host: "127.0.0.1",
    port: server.addr?.port ?? 0,
    cas,
    async [Symbol.asyncDispose]() {
      await cas[Symbol.asyncDispose]();
      await server.shutdown(5_000);
      // The threads that hashed parts would wait for more of them.
      await endHashPool();
    },
  };
}

/** Send `bytes` on a connection of its own, and read until it closes or `enough` says that all is there. */
export async function raw(
  { host, port }: { host: string; port: number },
  bytes: string | Uint8Array,
  enough: (text: string) => boolean = () => false,
): Promise<string> {
  using connection = await Deno.connect({ hostname: host, port });
  const writer = connection.writable.getWriter();
  const sent = writer.write(typeof bytes === "string" ? new TextEncoder().encode(bytes) : bytes);
  sent.catch(() => {});
  let text = "";
  const reader = connection.readable.getReader();
  while (!enough(text)) {
    const { done, value } = await reader.read();
    if (done) break;
    text += new TextDecoder("latin1").decode(value);
  }
  return text;
}
