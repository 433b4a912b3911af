/**
 * @module What comes back of an agent is put where it belongs: its commits under refs of the campaign's repository, its
 * files into the shared workspace. Its report is durable before, so this is done again until it succeeds, also by the
 * next server; nothing of it counts twice.
 */

import { type Cas, parseCid } from "../cas/mod.ts";
import { type Clock, isError, isHostFault, type Log, messageOf } from "../home/mod.ts";
import type { Db } from "../store/mod.ts";
import type { Vcs } from "../vcs/mod.ts";
import type { AgentFinished } from "./agent_shapes.ts";
import type { Landed, LandedWorkspace } from "./agent_store.ts";
import {
  landAgent,
  landingIds,
  type LandingReport,
  noteLanding,
  readLanding,
} from "./agent_store_landing.ts";
import { findCampaign } from "./campaign_store.ts";
import { takeWork } from "./agent_work.ts";
import type { Workspaces } from "./workspace.ts";

/** How often a failure that is no fault of this machine is tried again, and how long that takes at most, ms. */
const TRIES = 2;
const FIRST_RETRY_MS = 1_000;
const LONGEST_RETRY_MS = 60_000;
/** How many agents land at once. */
const AT_ONCE = 4;

/** What landing is made of. */
export interface LandingDeps {
  readonly db: Db;
  readonly cas: Cas;
  readonly vcs: Vcs;
  readonly clock: Clock;
  readonly log: Log;
  readonly workspaces: Workspaces;
  /** Called once the agent has ended. */
  readonly ended: (agent: number, job: number | null) => void;
}

/** Lands agents, each until it is done. */
export class Lander {
  readonly #deps: LandingDeps;
  readonly #tries = new Map<number, number>();
  readonly #waiting: number[] = [];
  readonly #running = new Map<number, Promise<void>>();
  readonly #retries = new Set<() => void>();
  #closed = false;

  constructor(deps: LandingDeps) {
    this.#deps = deps;
  }

  /** Take up what an earlier server left. */
  async resume(): Promise<void> {
    for (const id of await this.#deps.db.read(landingIds)) this.land(id);
  }

  /** The report of agent `id` is taken. */
  land(id: number): void {
    if (this.#closed || this.#running.has(id) || this.#waiting.includes(id)) return;
    this.#waiting.push(id);
    this.#next();
  }

  /** Start nothing more; resolves when nothing runs. What is left is for the next server. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const cancel of this.#retries) cancel();
    await Promise.all(this.#running.values());
  }

  #next(): void {
    while (!this.#closed && this.#running.size < AT_ONCE) {
      const id = this.#waiting.shift();
      if (id === undefined) return;
      const work = this.#try(id).finally(() => {
        this.#running.delete(id);
        this.#next();
      });
      this.#running.set(id, work);
    }
  }

  async #try(id: number): Promise<void> {
    const { db, log, ended } = this.#deps;
    const tries = (this.#tries.get(id) ?? 0) + 1;
    try {
      const report = await db.read((tx) => readLanding(tx, id));
      if (report === null) return;
      await this.#land(report, tries > TRIES);
      this.#tries.delete(id);
      ended(id, report.job);
    } catch (error) {
      this.#tries.set(id, tries);
      log.event("agent.not_landed", { agent: id, tries, error: messageOf(error) });
      await this.#note(id, messageOf(error));
      this.#retry(id, tries);
    }
  }

  async #note(id: number, why: string): Promise<void> {
    const { db, log } = this.#deps;
    try {
      await db.write((tx) => noteLanding(tx, id, `its work is not in place yet: ${why}`));
    } catch (error) {
      log.event("agent.not_noted", { agent: id, error: messageOf(error) });
    }
  }

  #retry(id: number, tries: number): void {
    if (this.#closed) return;
    const ms = Math.min(FIRST_RETRY_MS * 2 ** (tries - 1), LONGEST_RETRY_MS);
    const cancel = this.#deps.clock.after(ms, () => {
      this.#retries.delete(cancel);
      this.land(id);
    });
    this.#retries.add(cancel);
  }

  /** `last`: a failure is written down instead of thrown, unless this machine is at fault. */
  async #land(of: LandingReport, last: boolean): Promise<void> {
    const { db, clock } = this.#deps;
    const problems: string[] = [];
    const landed = of.report === null
      ? null
      : await this.#everything(of, of.report, last, problems);
    const error = [...(of.fault === null ? [] : [of.fault]), ...problems].join("; ");
    await db.write((tx) =>
      landAgent(tx, of.id, {
        state: of.revoked !== null ? "cancelled" : error === "" ? "finished" : "failed",
        error: error === "" ? null : error,
        landed,
      }, clock.now())
    );
  }

  async #everything(
    of: LandingReport,
    report: AgentFinished,
    last: boolean,
    problems: string[],
  ): Promise<Landed> {
    const { db, cas, vcs } = this.#deps;
    const attempt = async <T>(what: string, otherwise: T, work: () => Promise<T>): Promise<T> => {
      try {
        return await work();
      } catch (error) {
        if (!last || isOutage(error)) throw error;
        problems.push(`${what}: ${messageOf(error)}`);
        return otherwise;
      }
    };
    const campaign = await db.read((tx) => findCampaign(tx, of.campaign));
    const work = await attempt(
      lostWork(report),
      { head: null, ref: null, commits: 0, versions: [], branches: [] },
      () => takeWork({ cas, vcs, campaign, agent: of.id, base: of.base, report }),
    );
    const workspace = await attempt(
      "its files in the shared workspace could not be put in place",
      NOTHING,
      () => this.#workspace(of, report),
    );
    return {
      ...work,
      blob: report.work?.blob ?? null,
      left_out: report.left_out,
      left_out_count: Math.max(report.left_out_count, report.left_out.length),
      notes: report.notes,
      workspace,
    };
  }

  async #workspace(of: LandingReport, report: AgentFinished): Promise<LandedWorkspace> {
    if (of.workspace === null || Object.keys(report.workspace).length === 0) return NOTHING;
    return await this.#deps.workspaces.merge(of.campaign, {
      snapshot: parseCid(of.workspace),
      changes: report.workspace,
      author: `${of.role}-${of.id}`,
    });
  }
}

const NOTHING: LandedWorkspace = { written: 0, removed: 0, beside: {}, blocked: {}, kept: [] };

function lostWork({ work }: AgentFinished): string {
  return `its commits could not be taken into the campaign's repository ('sublet cas get ${
    work?.blob ?? ""
  } work.bundle' has them, for 'git fetch work.bundle')`;
}

/** Whether trying again is the only thing to do. */
function isOutage(error: unknown): boolean {
  return isHostFault(error) || isError(error, "unavailable", "unreachable", "busy");
}
