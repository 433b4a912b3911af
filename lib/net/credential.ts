/** @module The credential of this machine for the network `https`. */

import { type Env, SubletError } from "../home/mod.ts";

/** The variables that hold credentials of a network: no job ever sees them. */
export const CREDENTIALS = ["SUBLET_HTTPS_TOKEN"] as const;

/** The token in `SUBLET_HTTPS_TOKEN`. Throws `no_credential`. */
export function credentialFromEnv(env: Env): string {
  const token = env.SUBLET_HTTPS_TOKEN?.trim() ?? "";
  if (token === "") {
    throw new SubletError(
      "no_credential",
      "SUBLET_HTTPS_TOKEN is not set: run `sublet token create NAME` on the server, and put what it prints there",
    );
  }
  // Anything else would be refused by HTTP itself, with a less helpful text.
  if (!/^[\x21-\x7e]+$/.test(token)) {
    throw new SubletError(
      "no_credential",
      "SUBLET_HTTPS_TOKEN holds a character that no token has: put exactly what `sublet token create` printed there",
    );
  }
  return token;
}
