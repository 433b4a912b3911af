/** @module A server that says where it listens, and what it logs: on TCP, or on the socket that its argument names. */

import { serveHttp } from "../../lib/net/mod.ts";

// As the commands do. Deno itself opens files when it is first asked for signals, and panics where there are none left.
Deno.addSignalListener("SIGTERM", () => Deno.exit(0));
const say = (text: string) => console.log(text);
const [unix] = Deno.args;
const server = await serveHttp({
  fetch: () => new Response("hello"),
  ...(unix === undefined ? { listen: { host: "127.0.0.1", port: 0 } } : { unix }),
  log: { event: (event) => say(event) },
});
say(server.url);
