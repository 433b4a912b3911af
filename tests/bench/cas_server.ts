/**
 * @module A server in a process of its own, for `cas_bench.ts`: `deno run -A cas_server.ts cas|plain ROOT`.
 *
 * `cas` is the store's service on a disk store. `plain` receives to a file without hashing, and serves a file as it is:
 * what the same runtime does when it does nothing else. Both print the port they listen on.
 */

import { Hono } from "hono";
import { casService, openDisk, Uploads } from "../../lib/cas/mod.ts";
import { type NetEnv, serveHttp } from "../../lib/net/mod.ts";

async function receive(request: Request, path: string): Promise<Response> {
  using file = await Deno.open(path, { write: true, create: true, truncate: true });
  for await (const chunk of request.body ?? []) {
    for (let at = 0; at < chunk.length;) at += await file.write(chunk.subarray(at));
  }
  return new Response(null, { status: 201 });
}

async function send(path: string): Promise<Response> {
  const file = await Deno.open(path);
  const { size } = await file.stat();
  return new Response(file.readable, { headers: { "content-length": String(size) } });
}

async function store(root: string) {
  const cas = await openDisk({ path: `${root}/store` });
  return casService(cas, { uploads: await Uploads.open(cas, { directory: `${root}/uploads` }) });
}

if (import.meta.main) {
  const [kind, root] = Deno.args;
  const app = new Hono<NetEnv>();
  app.put("*", (c) => receive(c.req.raw, `${root}/file`));
  app.get("*", () => send(`${root}/file`));
  const served = kind === "cas" ? await store(root ?? "") : app;
  const server = await serveHttp({
    fetch: (request, peer) => served.fetch(request, peer),
    listen: { host: "127.0.0.1", port: 0 },
  });
  console.log(server.addr?.port);
}
