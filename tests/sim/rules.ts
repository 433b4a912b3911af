/** @module What must hold after every transaction, each rule by itself. */

import type { Change, Changes, EventFacts, LeaseFacts } from "./feed.ts";
import { isLive, isOpen, type Model } from "./model.ts";

/** What a rule may look at beside the database. */
export interface Surroundings {
  /** Slots of each worker, by pool. */
  readonly pools: Readonly<Record<string, { agents: number; evaluations: number }>>;
  /** Every fencing id that was ever given out, in databases that were lost since, too. */
  readonly issued: Set<number>;
  /** The largest of them. */
  newest: number;
  /** Whether the server's wall clock never jumped. */
  steady: boolean;
  /** Leases that their worker gave back for a fault of its machine. */
  readonly faulted: Set<number>;
  /** Incarnations that were granted their one lease. */
  readonly granted: Map<string, number>;
  /** Jobs whose cancelling was answered. */
  readonly cancelled: Set<number>;
  /** Whether the store has a blob. */
  readonly holds: (cid: string) => boolean;
}

/** A rule: what is wrong, or null. `before` is not at hand any more, but each change has it. */
export type Rule = (model: Model, changes: Changes, around: Surroundings) => string | null;

const AFTER: Readonly<Record<string, readonly string[]>> = {
  queued: ["acquired", "cancelled"],
  acquired: ["running", "reported", "expired", "cancelled"],
  running: ["reported", "expired", "cancelled"],
  reported: [],
  expired: [],
  cancelled: [],
};

/** The end of a lease that its row does not tell by itself, by state. */
const EVENTS: Readonly<Record<string, readonly string[]>> = {
  expired: ["expired", "lost"],
  cancelled: ["cancelled"],
};

const moves = (changes: Changes): Change<LeaseFacts>[] =>
  changes.leases.filter(({ before, after }) => before?.state !== after.state);

export const RULES: Readonly<Record<string, Rule>> = {
  "a lease only moves forward": (_model, changes) => {
    for (const { id, before, after } of moves(changes)) {
      const allowed = before === null ? ["queued"] : AFTER[before.state] ?? [];
      if (!allowed.includes(after.state)) {
        return `lease ${id} went from ${before?.state ?? "nothing"} to ${after.state}`;
      }
    }
    return null;
  },

  "a lease changes together with what tells of it": (_model, changes) => {
    for (const { id, after: { state, timed } } of moves(changes)) {
      const events = EVENTS[state];
      const told = events === undefined ||
        changes.events.some(({ after: { event, lease } }) =>
          lease === id && events.includes(event)
        );
      const open = isOpen(state);
      const late = state === "acquired" && !timed.acquired || state === "running" && !timed.running;
      if (!told || late || timed.ended === open) {
        return `lease ${id} is ${state}, and nothing says so`;
      }
    }
    return null;
  },

  "a revoke and a worker's standing change together with what tells of them": (_model, changes) => {
    const told = (name: string, by: (event: EventFacts) => boolean) =>
      changes.events.some(({ after }) => after.event === name && by(after));
    for (const { id, before, after } of changes.leases) {
      if (before === null || before.revoked === after.revoked) continue;
      if (!told("revoked", ({ lease }) => lease === id)) return `lease ${id} was revoked untold`;
    }
    for (const { before, after } of changes.workers) {
      const of = ({ worker }: EventFacts) => worker === after.name;
      const is = (what: "drained" | "paused" | "left") => before?.[what] ?? false;
      const untold = ["drained", "paused", "left"] as const;
      for (const what of untold) {
        if (after[what] && !is(what) && !told(what, of)) return `${after.name} is ${what} untold`;
      }
      const resumed = is("drained") && !after.drained || is("paused") && !after.paused;
      if (resumed && !told("resumed", of)) return `${after.name} was resumed untold`;
      const other = after.incarnation !== null && before?.incarnation !== after.incarnation;
      if (other && !told("joined", of)) return `${after.name} joined untold`;
    }
    return null;
  },

  "a lease is lost once": (_model, changes) => {
    for (const { after: { event, lease } } of changes.events) {
      if (event !== "lost" && event !== "expired") continue;
      if (moves(changes).some(({ id, after }) => id === lease && after.state === "expired")) {
        continue;
      }
      return `lease ${lease} was over, and is ${event}`;
    }
    return null;
  },

  "fencing ids grow and never come back": (_model, changes, around) => {
    for (const { id, before } of changes.leases) {
      if (before !== null) continue;
      if (around.issued.has(id)) return `lease ${id} was given out before`;
      if (around.steady && id < around.newest) return `lease ${id} came after ${around.newest}`;
      around.issued.add(id);
      around.newest = Math.max(around.newest, id);
    }
    return null;
  },

  "the newest lease of a job has the largest id": (model, changes) => {
    for (const { id, before, after } of changes.leases) {
      if (before !== null) continue;
      for (const [other, lease] of model.leases) {
        if (lease.job === after.job && other > id) return `lease ${id} came after ${other}`;
      }
    }
    return null;
  },

  "an open job has one open lease, and an ended one none": (model, changes) => {
    const touched = new Set([
      ...changes.jobs.map(({ id }) => id),
      ...changes.leases.map(({ after }) => after.job),
    ]);
    for (const job of touched) {
      const open = model.open.get(job)?.size ?? 0;
      const wanted = model.jobs.get(job)?.state === "open" ? 1 : 0;
      if (open !== wanted) {
        return `job ${job} is ${model.jobs.get(job)?.state}: ${open} open leases`;
      }
    }
    return null;
  },

  "a job ends once, and only a dead or cancelled one is tried again": (_model, changes) => {
    for (const { id, before, after } of changes.jobs) {
      if (before === null || before.state === after.state) continue;
      if (before.state === "open") continue;
      const again = changes.events.some(({ after: { event, job } }) =>
        event === "retried" && job === id
      );
      if (before.state === "reported" || after.state !== "open" || !again) {
        return `job ${id} went from ${before.state} to ${after.state}`;
      }
    }
    return null;
  },

  "a job that ends has the event that says so": (_model, changes) => {
    for (const { id, before, after } of changes.jobs) {
      if (before?.state !== "open" || after.state === "open") continue;
      const named = changes.events.some(({ after: { event, job } }) =>
        job === id && event === after.state
      ) || moves(changes).some(({ after: lease }) =>
        lease.job === id && lease.state === "reported"
      );
      if (!named) return `job ${id} is ${after.state}, and no event says so`;
    }
    return null;
  },

  "slots are never exceeded": (model, changes, { pools }) => {
    for (const { id, after } of moves(changes)) {
      if (after.state !== "acquired" || after.worker === null) continue;
      const pool = model.workers.get(after.worker)?.pool ?? "";
      const bound = pools[pool]?.[after.slots] ?? 0;
      const live = model.liveOf(after.worker, after.slots).length;
      if (live > bound) {
        return `lease ${id} is number ${live} of ${after.worker}, of ${bound} slots`;
      }
    }
    return null;
  },

  "a worker that takes one lease gets one": (model, changes, { granted }) => {
    for (const { id, after } of moves(changes)) {
      if (after.state !== "acquired" || after.worker === null) continue;
      if (model.workers.get(after.worker)?.once !== true) continue;
      const process = `${after.worker}/${after.incarnation}`;
      const first = granted.get(process);
      if (first !== undefined) return `${process} got lease ${first}, and then ${id}`;
      granted.set(process, id);
    }
    return null;
  },

  "a worker that is drained, paused or gone gets nothing": (model, changes) => {
    for (const { id, after } of moves(changes)) {
      if (after.state !== "acquired" || after.worker === null) continue;
      const worker = model.workers.get(after.worker);
      if (worker?.drained || worker?.paused || worker?.left) {
        return `lease ${id} went to ${after.worker}`;
      }
    }
    return null;
  },

  "a lease is granted to the process that registered last": (model, changes) => {
    for (const { id, after } of moves(changes)) {
      if (after.state !== "acquired" || after.worker === null) continue;
      const known = model.workers.get(after.worker)?.incarnation;
      if (known !== after.incarnation) {
        return `lease ${id} went to ${after.incarnation} of ${known}`;
      }
    }
    return null;
  },

  "a lease has at most one accepted report, and a job's attempt too": (model, changes) => {
    for (const { after: { job, lease, what } } of changes.effects) {
      if (what !== "applied" && what !== "revoked") continue;
      const same = model.effects.filter((effect) =>
        (effect.what === "applied" || effect.what === "revoked") && effect.job === job &&
        (effect.lease === lease || effect.what === "applied")
      );
      if (same.length > 1) return `job ${job} has ${same.length} accepted reports`;
    }
    return null;
  },

  "a report is accepted in the transaction that ends its lease": (_model, changes) => {
    const applied = changes.effects.filter(({ after: { what } }) =>
      what === "applied" || what === "revoked"
    ).map(({ after: { lease } }) => lease);
    const reported = moves(changes).filter(({ after }) => after.state === "reported").map((
      { id },
    ) => id);
    return `${applied}` === `${reported}` ? null : `applied ${applied}, reported ${reported}`;
  },

  "a report is of the job and lease that it is accepted for": (model, changes) => {
    for (const { after: { job, lease, what, detail } } of changes.effects) {
      if (what !== "applied" && what !== "revoked") continue;
      const wanted = `${model.jobs.get(job)?.key}/${lease}`;
      if (detail !== wanted) return `${detail} was accepted for ${wanted}`;
    }
    return null;
  },

  "a cancelled job never ends as a success": (model, changes, { cancelled }) => {
    for (const { id, after } of changes.jobs) {
      if (after.state === "open") continue;
      const revoked = changes.leases.some(({ after: lease }) => lease.job === id && lease.revoked);
      const promised = cancelled.has(id);
      if (!revoked && !promised) continue;
      if (after.state !== "cancelled") return `job ${id} was cancelled and is ${after.state}`;
      if (model.effects.some((each) => each.job === id && each.what === "applied")) {
        return `job ${id} was cancelled, and its report counted`;
      }
    }
    return null;
  },

  "a job is lost no more often than it has attempts": (model, changes) => {
    for (const { id, before, after } of changes.leases) {
      if (before !== null) continue;
      const attempts = model.jobs.get(after.job)?.attempts ?? 0;
      if (after.attempt > attempts) return `lease ${id} is attempt ${after.attempt} of ${attempts}`;
    }
    return null;
  },

  "each loss is an attempt, but for ten faults of machines": (model, changes, { faulted }) => {
    for (const { id, before, after } of changes.leases) {
      if (before !== null) continue;
      const { job, attempt } = after;
      const ended = moves(changes).find(({ after: lease }) =>
        lease.job === job && lease.state === "expired"
      );
      const faults = changes.jobs.find((each) => each.id === job)?.before?.hostFaults ??
        model.jobs.get(job)?.hostFaults ?? 0;
      const said = changes.events.some(({ after: { event, lease } }) =>
        event === "lost" && lease === ended?.id && faulted.has(lease)
      );
      const excused = said && faults < 10;
      const wanted = ended === undefined ? 1 : ended.after.attempt + (excused ? 0 : 1);
      if (attempt !== wanted) return `lease ${id} is attempt ${attempt}, and not ${wanted}`;
    }
    return null;
  },

  "the kind of a job is told of every end": (_model, changes) => {
    for (const { id, before, after } of changes.jobs) {
      if (before?.state !== "open" || after.state === "open") continue;
      const told = changes.effects.some(({ after: effect }) =>
        effect.job === id && ["applied", "revoked", "dead", "cancelled"].includes(effect.what)
      );
      if (!told) return `job ${id} is ${after.state}, and its kind was not told`;
    }
    return null;
  },

  "a prompt is answered once": (_model, changes) => {
    for (const { id, before, after } of changes.mails) {
      if (before?.answered && (!after.answered || before.error !== after.error)) {
        return `message ${id} was answered twice`;
      }
    }
    return null;
  },

  "blobs that something live names are in the store": (_model, changes, { holds }) => {
    for (const { id, before, after } of changes.jobs) {
      if (before === null && !holds(after.cid)) return `job ${id} names ${after.cid}`;
    }
    for (const { after: { what, job, detail } } of changes.effects) {
      if (what === "blob" && !holds(detail)) return `the report of job ${job} names ${detail}`;
    }
    return null;
  },

  "a live lease is held by a worker, and an open one by nobody else's": (_model, changes) => {
    for (const { id, after } of changes.leases) {
      if (isLive(after.state) && after.worker === null) return `lease ${id} is live and nobody's`;
      if (after.state === "queued" && after.worker !== null) {
        return `lease ${id} is queued and held`;
      }
      if (!isOpen(after.state)) continue;
    }
    return null;
  },
};

/** Check every rule. */
export function checkRules(
  model: Model,
  changes: Changes,
  around: Surroundings,
  broken: (rule: string, what: string) => void,
): void {
  for (const [name, rule] of Object.entries(RULES)) {
    const what = rule(model, changes, around);
    if (what !== null) broken(name, what);
  }
}
