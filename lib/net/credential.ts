/** @module The credential of this machine for the network `https`. */

import { type Env, SubletError } from "../home/mod.ts";

/** The variables that hold credentials of a network: no job ever sees them. */
export const CREDENTIALS = ["SUBLET_HTTPS_TOKEN"] as const;

/** The token in `SUBLET_HTTPS_TOKEN`. Throws `no_credential`. */
export function credentialFromEnv(env: Env): string {
  return tokenOf(
    env,
    "SUBLET_HTTPS_TOKEN",
    "SUBLET_HTTPS_TOKEN is not set: run `sublet token create NAME` on the server, and put what it prints there",
  );
}

/**
 * The token in the variable `name`, without white space around it; `missing` says that there is none. Throws
 * `no_credential`.
 */
export function tokenOf(env: Env, name: string, missing: string): string {
  const token = env[name]?.trim() ?? "";
  if (token === "") throw new SubletError("no_credential", missing);
  // Anything else would be refused by HTTP itself, with a less helpful text.
  if (!/^[\x21-\x7e]+$/.test(token)) {
    throw new SubletError(
      "no_credential",
      `${name} holds a character that no token has: put exactly what \`sublet token create\` printed there`,
    );
  }
  return token;
}
