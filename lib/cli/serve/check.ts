/** @module `sublet serve --check`: whether the server could start, without starting it. */

import { openServerCas } from "./compose.ts";
import type { Output } from "../output.ts";
import { readSettings } from "./settings.ts";

/** Say that the server can start, or throw what stands in its way. */
export async function checkServe(listen: string | undefined, output: Output): Promise<void> {
  const settings = await readSettings(listen);
  await openServerCas(settings);
  output.line("the server can start");
}
