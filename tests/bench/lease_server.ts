/** @module A lease server for the benchmark, in a process of its own. `lease_server.ts FILE WORKERS`. */

import { serveLeases } from "./lease_app.ts";
import { IdleKind } from "./lease_queue.ts";

if (import.meta.main) {
  const [path = "", workers = "1"] = Deno.args;
  const { ready } = await serveLeases(path, Number(workers), new IdleKind(), {});
  console.log(JSON.stringify(ready));
}
