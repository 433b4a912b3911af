/** @module Comparing evaluations that ran beside a bar, once they ended: apart from the transaction that ends them. */

import { type Clock, type Log, messageOf } from "../home/mod.ts";
import type { Db } from "../store/mod.ts";
import { findCampaign } from "./campaign_store.ts";
import { compare, type Comparison } from "./campaign_verdict.ts";
import type { StoredComparison } from "./evaluation_store.ts";
import {
  readUncompared,
  saveComparison,
  type Uncompared,
  uncomparedIds,
} from "./evaluation_store_comparisons.ts";

/** Compares evaluations, each once. */
export class Comparer {
  readonly #db: Db;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #running = new Map<number, Promise<void>>();

  constructor(db: Db, clock: Clock, log: Log) {
    this.#db = db;
    this.#clock = clock;
    this.#log = log;
  }

  /** Resolves when the comparison of evaluation `id` is stored, or failed, which the log says. It never rejects. */
  compare(id: number): Promise<void> {
    const running = this.#running.get(id);
    if (running !== undefined) return running;
    const started = this.#compare(id)
      .catch((error) =>
        this.#log.event("comparison.failed", { evaluation: id, error: messageOf(error) })
      )
      .finally(() => this.#running.delete(id));
    this.#running.set(id, started);
    return started;
  }

  /** Compare what a server that stopped left. */
  async resume(): Promise<void> {
    for (const id of await this.#db.read(uncomparedIds)) await this.compare(id);
  }

  /** Resolves when no comparison runs. */
  async idle(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running.values());
  }

  async #compare(id: number): Promise<void> {
    const found = await this.#db.read(async (tx) => {
      const uncompared = await readUncompared(tx, id);
      if (uncompared === null) return null;
      const campaign = await findCampaign(tx, uncompared.campaign);
      return campaign === null ? null : { uncompared, campaign };
    });
    if (found === null) return;
    const { uncompared, campaign } = found;
    const comparison = await compare(
      campaign.config,
      uncompared.samples,
      uncompared.barSamples,
      () => this.#clock.sleep(0),
    );
    await this.#db.write((tx) => saveComparison(tx, id, stored(comparison, uncompared)));
  }
}

/** A gain that another evaluator measured is no reason to keep a candidate. */
function stored(comparison: Comparison, uncompared: Uncompared): StoredComparison {
  const { against, evaluatorChanged } = uncompared;
  const base = { ...comparison, against, evaluator_changed: evaluatorChanged };
  if (!evaluatorChanged) return base;
  const reason = `${comparison.reason}; but another command or script measured the bar`;
  return { ...base, reason, verdict: base.verdict === "keep" ? "interesting" : base.verdict };
}
