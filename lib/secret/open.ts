/** @module Opens the provider that `[plugins.secrets]` names. */

import { join } from "node:path";
import * as z from "zod";
import { parseTable } from "../home/config/mod.ts";
import { type Clock, SubletError } from "../home/mod.ts";
import type { Secrets } from "./contract.ts";
import { keyFile } from "./key_file.ts";
import { LocalSecrets } from "./local.ts";

/** The key's file in a home. */
const KEY_FILE = "secret.key";

const local = z.strictObject({ provider: z.literal("local") });

/** Open the provider that `table`, the table `[plugins.secrets]` of the home's config, names. Throws `config`. */
export async function openSecrets(
  table: Readonly<Record<string, unknown>>,
  { home, clock }: { readonly home: string; readonly clock: Clock },
): Promise<Secrets> {
  const file = join(home, "config.toml");
  if (table["provider"] !== "local") {
    throw new SubletError(
      "config",
      `plugins.secrets.provider = ${
        JSON.stringify(table["provider"])
      }: there is no such provider; known: local (in ${file})`,
    );
  }
  parseTable(local, table, "plugins.secrets", file);
  return new LocalSecrets(await keyFile(join(home, KEY_FILE)), clock);
}
