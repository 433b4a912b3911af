/** @module A server that says where it listens, and what it logs. */

import { serveHttp } from "../../lib/net/mod.ts";

const say = (text: string) => console.log(text);
const server = await serveHttp({
  fetch: () => new Response("hello"),
  listen: { host: "127.0.0.1", port: 0 },
  log: { event: (event) => say(event) },
});
say(server.url);
