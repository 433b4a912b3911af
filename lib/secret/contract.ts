/** @module The contract of a provider of secrets. Providers are checked by `checkSecrets`. */

import type { Tx } from "../store/mod.ts";

/** Whose a secret is: a campaign's id, or the home's (null). A campaign's goes before the home's of the same name. */
export type Owner = number | null;

/** A secret, without its value. */
export interface SecretInfo {
  readonly owner: Owner;
  /** The name of an environment variable. */
  readonly name: string;
  /** Milliseconds since 1970. */
  readonly setAt: number;
  /** The caller who set it. */
  readonly setBy: string;
}

/** Secrets by owner and name. Every method runs in the caller's transaction, and awaits nothing else. */
export interface Secrets {
  /** Keep `value`, in the place of an earlier one. Throws `invalid_request` for a name or a value that cannot be. */
  put(tx: Tx, owner: Owner, name: string, value: string, by: string): Promise<void>;
  /** Whether there was one. */
  delete(tx: Tx, owner: Owner, name: string): Promise<boolean>;
  /** All of them, the home's first, then by owner and name. */
  list(tx: Tx): Promise<SecretInfo[]>;
  /**
   * The values of those of `names` that `owner` has, or else the home; others are left out. Throws `integrity` for one
   * that cannot be unsealed.
   */
  values(tx: Tx, owner: Owner, names: readonly string[]): Promise<Map<string, string>>;
}
