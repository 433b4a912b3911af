/** @module The executable: argv in, exit code out. */

import { main } from "./lib/cli/mod.ts";

Deno.exit(await main(Deno.args));
