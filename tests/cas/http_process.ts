/** @module A served store in a process of its own, to be killed: `deno run -A http_process.ts ROOT` prints its port. */

import { casService, openDisk, Uploads } from "../../lib/cas/mod.ts";
import { serveHttp } from "../../lib/net/mod.ts";

if (import.meta.main) {
  const [root = ""] = Deno.args;
  const store = await openDisk({ path: root });
  const uploads = await Uploads.open(store, { directory: `${root}/none` });
  const service = casService(store, { uploads });
  const server = await serveHttp({
    fetch: (request, peer) => service.fetch(request, peer),
    listen: { host: "127.0.0.1", port: 0 },
  });
  console.log(server.addr?.port);
}
