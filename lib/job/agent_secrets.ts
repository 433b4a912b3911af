/** @module The secrets that an agent's job names, and their values for its lease. */

import { parseCid } from "../cas/mod.ts";
import type { Cas } from "../cas/mod.ts";
import { SubletError } from "../home/mod.ts";
import type { Secrets } from "../secret/mod.ts";
import type { Db, Row, Tx } from "../store/mod.ts";
import { agentJob } from "./agent_shapes.ts";

type JobRow = Row & { job_cid: string };
type AgentRow = Row & { campaign: number };

/** Values for jobs that run. The names are those of the job's JSON: a worker cannot ask for others. */
export class AgentSecrets {
  readonly #db: Db;
  readonly #cas: Cas;
  readonly #secrets: Secrets;

  constructor(db: Db, cas: Cas, secrets: Secrets) {
    this.#db = db;
    this.#cas = cas;
    this.#secrets = secrets;
  }

  /** The names of the secrets that the job `id` of the lease engine lists. Throws `missing_blobs` when its JSON is lost. */
  async names(id: number): Promise<string[]> {
    const row = await this.#db.read((tx) =>
      tx.get<JobRow>("SELECT job_cid FROM jobs WHERE id = ?", [id])
    );
    const bytes = row === null ? null : await this.#cas.get(parseCid(row.job_cid));
    if (bytes === null) {
      throw new SubletError("missing_blobs", `the store has lost what job ${id} is to do`);
    }
    const { secrets } = agentJob.parse(JSON.parse(new TextDecoder().decode(bytes)));
    return [...new Set(Object.values(secrets))];
  }

  /** The values of `names` for the agent `key`, by name; those that its campaign and the home lack are left out. */
  async values(tx: Tx, key: string, names: readonly string[]): Promise<Map<string, string>> {
    const agent = await tx.get<AgentRow>("SELECT campaign FROM agents WHERE id = ?", [Number(key)]);
    return agent === null ? new Map() : await this.#secrets.values(tx, agent.campaign, names);
  }
}
