/** @module Campaigns and their evaluations, as a server keeps them: what `serve` composes. */

import type { Cas, Cid, Seen } from "../cas/mod.ts";
import { type Clock, type Log, SubletError } from "../home/mod.ts";
import type { Db, Tx } from "../store/mod.ts";
import type { Transfers, Vcs } from "../vcs/mod.ts";
import { loadCampaign } from "./campaign_file.ts";
import {
  type Campaign,
  campaignAt,
  candidateOf,
  findCampaign,
  listCampaigns,
  moveCampaign,
  saveCampaign,
} from "./campaign_store.ts";
import { campaignTransfers } from "./campaign_transfers.ts";
import { Comparer } from "./evaluation_comparer.ts";
import { EvaluationKind } from "./evaluation_kind.ts";
import { evaluationRows } from "./evaluation_queue.ts";
import {
  type EvaluationRequest,
  type Measured,
  type PreparedRequest,
  Preparer,
} from "./evaluation_request.ts";
import {
  countEvaluations,
  type Evaluation,
  type EvaluationFilter,
  evaluationOfJob,
  type EvaluationState,
  hasEnded,
  listEvaluations,
  readEvaluation,
} from "./evaluation_store.ts";
import {
  insertEvaluation,
  requestedBefore,
  type Unsubmitted,
} from "./evaluation_store_requests.ts";
import { Waiters, waitUntil } from "./evaluation_waiters.ts";
import { type Queue, Submitter } from "./job_queue.ts";

/** What evaluations are made of. */
export interface EvaluationsDeps {
  readonly db: Db;
  readonly cas: Cas;
  readonly vcs: Vcs;
  readonly clock: Clock;
  readonly log: Log;
  /** What is known of linked inputs, which need not be read then. Default: what this process read. */
  readonly seen?: Seen;
}

/** A campaign by its name or id, or by a directory in its checkout. */
export type CampaignRef = { readonly campaign: number | string } | { readonly path: string };

/** The campaigns and evaluations of a server. Call `bind`, then `resume`, before anything else. */
export class Evaluations {
  /** Evaluations as a kind of the lease engine's jobs. */
  readonly kind: EvaluationKind;
  readonly #deps: EvaluationsDeps;
  readonly #waiters = new Waiters();
  readonly #comparer: Comparer;
  readonly #preparer: Preparer;
  readonly #submitter: Submitter<Unsubmitted>;
  readonly #transfers: Transfers;

  constructor(deps: EvaluationsDeps) {
    this.#deps = deps;
    this.kind = new EvaluationKind(deps.clock, (id, paired) => void this.#changed(id, paired));
    this.#comparer = new Comparer(deps.db, deps.clock, deps.log);
    this.#preparer = new Preparer(deps.vcs, deps.cas, deps.seen);
    this.#submitter = new Submitter(deps, evaluationRows, "evaluations");
    this.#transfers = campaignTransfers(deps);
  }

  /** Submit to this queue. */
  bind(queue: Queue): void {
    this.#submitter.bind(queue);
  }

  /**
   * Take up what a server that died left: evaluations without a job are queued, and missing comparisons made. While the
   * store cannot be reached the server starts all the same, and this is tried again.
   */
  async resume(): Promise<void> {
    await this.#comparer.resume();
    await this.#submitter.resume();
  }

  /** End what runs in the background; to be called last. */
  async idle(): Promise<void> {
    this.#submitter.close();
    await this.#comparer.idle();
  }

  /**
   * Register the checkout that `path` is in, from its campaign's file, or take in that file's new form. Throws
   * `not_found` for no checkout, no file or no commit, `invalid_request` with a line for each mistake of the file, and
   * `conflict` for the name of a campaign elsewhere.
   */
  async register(path: string): Promise<Campaign> {
    const root = await this.#root(path);
    const { config } = await loadCampaign(root);
    const evaluator = await this.#preparer.evaluatorOf({ path: root, config });
    const moved = await this.#movedFrom(config.name, root);
    return await this.#deps.db.write(async (tx) => {
      if (moved !== null) await moveCampaign(tx, moved, root);
      const now = this.#deps.clock.now();
      return await saveCampaign(tx, { name: config.name, path: root, config, evaluator }, now);
    });
  }

  /** A campaign, or `not_found`. */
  async campaign(ref: CampaignRef): Promise<Campaign> {
    if ("path" in ref) return await this.#campaignIn(ref.path);
    const found = await this.#deps.db.read((tx) => findCampaign(tx, ref.campaign));
    if (found !== null) return found;
    throw new SubletError(
      "not_found",
      `there is no campaign ${ref.campaign}: register its checkout with 'sublet init'`,
    );
  }

  /** Up to `limit` campaigns with ids after `after`. */
  async campaigns(after: number, limit: number): Promise<Campaign[]> {
    return await this.#deps.db.read((tx) => listCampaigns(tx, after, limit));
  }

  /** How many evaluations a campaign has in each state. */
  async counts(campaign: number): Promise<Record<EvaluationState, number>> {
    return await this.#deps.db.read((tx) => countEvaluations(tx, campaign));
  }

  /**
   * Ask for evaluations: one row and one job for each revision, in their order. A request that was made before under
   * its `dedup` key gets what that one made. Throws `conflict` when that asked for something else.
   */
  async request(ref: CampaignRef, request: EvaluationRequest): Promise<Evaluation[]> {
    const campaign = await this.campaign(ref);
    const prepared = await this.#preparer.prepare(campaign, request);
    const { ids, rows } = await this.#deps.db.write((tx) =>
      this.#insert(tx, campaign, request, prepared)
    );
    await this.#submitter.submit(rows);
    return await this.#deps.db.read(async (tx) => {
      const evaluations: Evaluation[] = [];
      for (const id of ids) evaluations.push(await known(tx, id));
      return evaluations;
    });
  }

  /** Evaluation `id`, or `not_found`. */
  async evaluation(id: number): Promise<Evaluation> {
    const found = await this.#deps.db.read((tx) => known(tx, id));
    if (!lacksComparison(found)) return found;
    await this.#comparer.compare(id);
    return await this.#deps.db.read((tx) => known(tx, id));
  }

  /** Evaluation `id` once it ended, or as it is after `ms` milliseconds or when `signal` aborts. */
  async waitFor(id: number, ms: number, signal: AbortSignal): Promise<Evaluation> {
    return await waitUntil(
      {
        clock: this.#deps.clock,
        subscribe: (wake) => this.#waiters.subscribe(id, wake),
        read: () => this.evaluation(id),
        done: ({ state }) => hasEnded(state),
      },
      ms,
      signal,
    );
  }

  /** The evaluation of a job, or null. */
  async ofJob(job: number): Promise<Evaluation | null> {
    return await this.#deps.db.read((tx) => evaluationOfJob(tx, job));
  }

  /** Evaluations, from new to old. */
  async list(filter: EvaluationFilter): Promise<Evaluation[]> {
    return await this.#deps.db.read((tx) => listEvaluations(tx, filter));
  }

  /**
   * Put what `revisions` of campaign `repo` have beyond `have` into the CAS: the blobs to take, in order. Null: it is
   * still being built after `wait` seconds, so ask again. Rejects with `not_sent`.
   */
  async send(
    repo: number,
    revisions: readonly string[],
    have: readonly string[],
    wait: number,
    signal?: AbortSignal,
  ): Promise<Cid[] | null> {
    return await this.#transfers.send(repo, revisions, have, wait * 1000, signal);
  }

  async #changed(id: number, paired: boolean): Promise<void> {
    if (paired) await this.#comparer.compare(id);
    this.#waiters.wake(id);
  }

  async #insert(
    tx: Tx,
    campaign: Campaign,
    request: EvaluationRequest,
    { candidates, bar, repeats }: PreparedRequest,
  ): Promise<{ ids: readonly number[]; rows: readonly Unsubmitted[] }> {
    const { config } = campaign;
    const side = async ({ version, artifact }: Measured) => ({
      candidate: await candidateOf(tx, campaign.id, version.revision, version.subject),
      artifact,
    });
    const against = bar === null ? null : await side(bar);
    const sides = [];
    for (const measured of candidates) sides.push({ measured, side: await side(measured) });
    if (request.dedup !== undefined) {
      const ids = await requestedBefore(tx, campaign.id, request.dedup, {
        candidates: sides.map(({ side }) => side.candidate.id),
        bar: against?.candidate.id ?? null,
        repeats,
      });
      if (ids.length > 0) return { ids, rows: [] };
    }
    const rows: Unsubmitted[] = [];
    for (const { measured, side } of sides) {
      rows.push(
        await insertEvaluation(tx, {
          campaign: campaign.id,
          ...side,
          bar: against,
          evaluator: measured.evaluator,
          barEvaluator: bar?.evaluator ?? null,
          command: config.evaluate,
          timeout: config.evaluate_timeout,
          required: config.metrics.map(({ name }) => name),
          repeats,
          pool: request.pool ?? null,
          priority: request.priority ?? 0,
          dedup: request.dedup ?? null,
        }, this.#deps.clock.now()),
      );
    }
    return { ids: rows.map(({ id }) => id), rows };
  }

  async #root(path: string): Promise<string> {
    const root = await this.#deps.vcs.root(path);
    if (root !== null) return root;
    throw new SubletError(
      "not_found",
      `${path} is in no git checkout: name a directory in one, or make it one with 'git init'`,
    );
  }

  async #campaignIn(path: string): Promise<Campaign> {
    const root = await this.#root(path);
    const found = await this.#deps.db.read((tx) => campaignAt(tx, root));
    if (found !== null) return found;
    throw new SubletError(
      "not_found",
      `${root} is no campaign's checkout: register it with 'sublet init'`,
    );
  }

  /** The id of the campaign `name` when no checkout is left where it was: `root` is then where it went. */
  async #movedFrom(name: string, root: string): Promise<number | null> {
    const other = await this.#deps.db.read((tx) => findCampaign(tx, name));
    if (other === null || other.path === root) return null;
    return await this.#deps.vcs.root(other.path) === other.path ? null : other.id;
  }
}

async function known(tx: Tx, id: number): Promise<Evaluation> {
  const found = await readEvaluation(tx, id);
  if (found !== null) return found;
  throw new SubletError("not_found", `there is no evaluation ${id}`);
}

function lacksComparison({ state, against, comparison }: Evaluation): boolean {
  return against !== null && comparison === null && (state === "measured" || state === "failed");
}
