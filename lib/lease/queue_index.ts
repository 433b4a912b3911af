/**
 * @module How many leases wait, by lane and campaign, and how many are live, by campaign. It chooses where an acquire
 * looks; the database says what is there. Counts may be off for a moment, and then a look finds nothing.
 */

import type { Slots } from "./gates.ts";
import { type Lane, parseLane, type Profile } from "./lanes.ts";

interface LaneQueue {
  readonly lane: Lane;
  readonly slots: Slots | null;
  total: number;
  /** Takeable leases by campaign; 0 is none. */
  readonly campaigns: Map<number, number>;
  /** Which profiles fit, as far as anybody asked. */
  readonly fits: WeakMap<Profile, boolean>;
}

/** Where an acquire may look: the campaign that is next, and its lanes. */
export interface Place {
  readonly campaign: number;
  readonly lanes: readonly string[];
}

/** The counts. */
export class QueueIndex {
  readonly #slotsOf: (kind: string) => Slots | null;
  readonly #lanes = new Map<string, LaneQueue>();
  readonly #live = new Map<number, number>();

  /** `slotsOf` says which slots a kind counts for; null: this server does not know the kind, so it only waits. */
  constructor(slotsOf: (kind: string) => Slots | null) {
    this.#slotsOf = slotsOf;
  }

  /** `count` more (or fewer) leases of `campaign` may be taken in `lane`. */
  add(lane: string, campaign: number, count: number): void {
    let queue = this.#lanes.get(lane);
    if (queue === undefined) {
      const parsed = parseLane(lane);
      queue = {
        lane: parsed,
        slots: this.#slotsOf(parsed.kind),
        total: 0,
        campaigns: new Map(),
        fits: new WeakMap(),
      };
      this.#lanes.set(lane, queue);
    }
    queue.total += count;
    bump(queue.campaigns, campaign, count);
    if (queue.campaigns.size === 0) this.#lanes.delete(lane);
  }

  /** `count` more (or fewer) leases of `campaign` are live. */
  addLive(campaign: number, count: number): void {
    bump(this.#live, campaign, count);
  }

  /** How many leases may be taken in `lane`. */
  count(lane: string): number {
    return this.#lanes.get(lane)?.total ?? 0;
  }

  /** How many leases may be taken. */
  get total(): number {
    let sum = 0;
    for (const queue of this.#lanes.values()) sum += queue.total;
    return sum;
  }

  /** The slots that jobs of `lane` count for, if any wait there and their kind is known. */
  slotsOf(lane: string): Slots | null {
    return this.#lanes.get(lane)?.slots ?? null;
  }

  /** Whether a worker with `profile` fits `lane`, in which something waits. */
  fits(profile: Profile, lane: string): boolean {
    const queue = this.#lanes.get(lane);
    return queue !== undefined && fitsQueue(profile, queue);
  }

  /** The lanes of the class `slots` that fit `profile` and in which something waits. */
  *fitting(profile: Profile, slots: Slots): Generator<string> {
    for (const [text, queue] of this.#lanes) {
      if (queue.slots === slots && queue.total > 0 && fitsQueue(profile, queue)) yield text;
    }
  }

  /** Where to look for a lease of the class `slots`, best first: the campaign with the fewest live leases. */
  *places(profile: Profile, slots: Slots): Generator<Place> {
    const lanes = new Map<number, string[]>();
    for (const [text, queue] of this.#lanes) {
      if (queue.slots !== slots || queue.total <= 0 || !fitsQueue(profile, queue)) continue;
      for (const [campaign, count] of queue.campaigns) {
        if (count <= 0) continue;
        const known = lanes.get(campaign);
        if (known === undefined) lanes.set(campaign, [text]);
        else known.push(text);
      }
    }
    while (lanes.size > 0) {
      const campaign = this.#fewestLive(lanes.keys());
      yield { campaign, lanes: lanes.get(campaign) ?? [] };
      lanes.delete(campaign);
    }
  }

  /** Every lane in which something waits, with its count. */
  *waiting(): Generator<{ text: string; lane: Lane; slots: Slots | null; count: number }> {
    for (const [text, { lane, slots, total }] of this.#lanes) {
      if (total > 0) yield { text, lane, slots, count: total };
    }
  }

  #fewestLive(campaigns: Iterable<number>): number {
    let best = Infinity;
    let fewest = Infinity;
    for (const campaign of campaigns) {
      const live = this.#live.get(campaign) ?? 0;
      if (live < fewest || live === fewest && campaign < best) [best, fewest] = [campaign, live];
    }
    return best;
  }
}

function fitsQueue(profile: Profile, queue: LaneQueue): boolean {
  let fits = queue.fits.get(profile);
  if (fits === undefined) {
    fits = profile.lacks(queue.lane) === null;
    queue.fits.set(profile, fits);
  }
  return fits;
}

function bump(counts: Map<number, number>, key: number, by: number): void {
  const next = (counts.get(key) ?? 0) + by;
  if (next === 0) counts.delete(key);
  else counts.set(key, next);
}
