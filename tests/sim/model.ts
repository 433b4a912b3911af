/** @module The state of the database as its changes tell it: what the rules are checked against. */

import type {
  Changes,
  EffectFacts,
  JobFacts,
  LeaseFacts,
  LeaseState,
  MailFacts,
  WorkerFacts,
} from "./feed.ts";

/** Whether a lease is taken and not over. */
export function isLive(state: LeaseState): boolean {
  return state === "acquired" || state === "running";
}

/** Whether a lease is not over. */
export function isOpen(state: LeaseState): boolean {
  return state === "queued" || isLive(state);
}

/** The durable state. */
export class Model {
  readonly leases = new Map<number, LeaseFacts>();
  readonly jobs = new Map<number, JobFacts>();
  readonly mails = new Map<number, MailFacts>();
  readonly workers = new Map<string, WorkerFacts>();
  readonly effects: EffectFacts[] = [];
  /** Open leases by job. */
  readonly open = new Map<number, Set<number>>();
  /** Live leases by worker. */
  readonly live = new Map<string, Set<number>>();
  /** Blobs that a job or an accepted report names. */
  readonly named = new Set<string>();
  newestLease = 0;

  apply(changes: Changes): void {
    for (const { id, before, after } of changes.leases) {
      this.leases.set(id, after);
      this.newestLease = Math.max(this.newestLease, id);
      put(this.open, after.job, id, isOpen(after.state));
      if (before?.worker != null && before.worker !== after.worker) {
        put(this.live, before.worker, id, false);
      }
      if (after.worker !== null) put(this.live, after.worker, id, isLive(after.state));
    }
    for (const { id, after } of changes.jobs) {
      this.jobs.set(id, after);
      this.named.add(after.cid);
    }
    for (const { id, after } of changes.mails) this.mails.set(id, after);
    for (const { after } of changes.workers) this.workers.set(after.name, after);
    for (const { after } of changes.effects) {
      this.effects.push(after);
      if (after.what === "blob") this.named.add(after.detail);
    }
  }

  liveOf(worker: string, slots?: LeaseFacts["slots"]): number[] {
    const ids = [...this.live.get(worker) ?? []];
    return slots === undefined ? ids : ids.filter((id) => this.leases.get(id)?.slots === slots);
  }

  get openJobs(): number[] {
    return [...this.jobs].filter(([, job]) => job.state === "open").map(([id]) => id);
  }

  /** As text, to compare with another. */
  text(): string {
    const sorted = <K extends string | number, V>(map: Map<K, V>) =>
      [...map].sort(([a], [b]) => a < b ? -1 : 1);
    return JSON.stringify([sorted(this.leases), sorted(this.jobs), sorted(this.mails)]);
  }
}

function put<K>(sets: Map<K, Set<number>>, key: K, id: number, has: boolean): void {
  let ids = sets.get(key);
  if (ids === undefined) sets.set(key, ids = new Set());
  if (has) ids.add(id);
  else ids.delete(id);
}
