/** @module The provider `local`: secrets in the home's database, sealed with the key in its file. */

import { type Clock, SubletError } from "../home/mod.ts";
import type { Row, Tx } from "../store/mod.ts";
import type { Owner, SecretInfo, Secrets } from "./contract.ts";
import { checkName, checkSecret } from "./names.ts";
import type { SealingKey } from "./seal.ts";

type InfoRow = Row & { campaign: number | null; name: string; set_at: number; set_by: string };
type SealedRow = Row & {
  campaign: number | null;
  name: string;
  sealed: Uint8Array;
  key_id: string;
};

/** What a value is sealed for: it opens nowhere else. */
function contextOf(owner: Owner, name: string): string {
  return JSON.stringify(["secret", owner, name]);
}

/** Secrets in the table `secrets`. */
export class LocalSecrets implements Secrets {
  readonly #key: SealingKey;
  readonly #clock: Clock;

  constructor(key: SealingKey, clock: Clock) {
    this.#key = key;
    this.#clock = clock;
  }

  async put(tx: Tx, owner: Owner, name: string, value: string, by: string): Promise<void> {
    checkSecret(name, value);
    await tx.run(
      `INSERT INTO secrets (campaign, name, sealed, key_id, set_at, set_by) VALUES (?, ?, ?, ?, ?, ?)
       ON CONFLICT (coalesce(campaign, 0), name) DO UPDATE SET
         sealed = excluded.sealed, key_id = excluded.key_id, set_at = excluded.set_at,
         set_by = excluded.set_by`,
      [
        owner,
        name,
        this.#key.seal(contextOf(owner, name), value),
        this.#key.id,
        Math.floor(this.#clock.now()),
        by,
      ],
    );
  }

  async delete(tx: Tx, owner: Owner, name: string): Promise<boolean> {
    checkName(name);
    return await tx.run("DELETE FROM secrets WHERE coalesce(campaign, 0) = ? AND name = ?", [
      owner ?? 0,
      name,
    ]) > 0;
  }

  async list(tx: Tx): Promise<SecretInfo[]> {
    const rows = await tx.all<InfoRow>(
      "SELECT campaign, name, set_at, set_by FROM secrets ORDER BY coalesce(campaign, 0), name",
    );
    return rows.map(({ campaign, name, set_at, set_by }) => ({
      owner: campaign,
      name,
      setAt: set_at,
      setBy: set_by,
    }));
  }

  async values(tx: Tx, owner: Owner, names: readonly string[]): Promise<Map<string, string>> {
    // The home's first, so that the owner's goes over it.
    const rows = await tx.all<SealedRow>(
      `SELECT campaign, name, sealed, key_id FROM secrets
       WHERE coalesce(campaign, 0) IN (0, ?) AND name IN (SELECT value FROM json_each(?))
       ORDER BY coalesce(campaign, 0)`,
      [owner ?? 0, JSON.stringify(names)],
    );
    const chosen = new Map(rows.map((row) => [row.name, row]));
    return new Map([...chosen].map(([name, row]) => [name, this.#open(row)]));
  }

  #open({ campaign, name, sealed, key_id }: SealedRow): string {
    if (key_id !== this.#key.id) {
      throw new SubletError(
        "integrity",
        `the secret ${name} was sealed with another key: put that key's file back, or set the secret again`,
      );
    }
    try {
      return this.#key.open(contextOf(campaign, name), sealed);
    } catch (cause) {
      throw new SubletError(
        "integrity",
        `the secret ${name} in the database was changed by somebody else: set it again`,
        { cause },
      );
    }
  }
}
