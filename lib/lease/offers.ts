/**
 * @module Who is told that work waits: as many workers as there are jobs, each of which fits one, has a free slot and
 * waits in a long-poll. A worker that does not come for it within a second is passed over.
 */

import type { Clock } from "../home/mod.ts";
import { Alarm } from "./alarm.ts";
import { isFull, type Pool, pressure, SLOTS, type Slots } from "./gates.ts";
import type { Profile } from "./lanes.ts";
import type { Member, Offer } from "./member.ts";
import type { QueueIndex } from "./queue_index.ts";

/** How long a worker has to come for work that it was offered, and the longest that one who did not is left out. */
const OFFER_MS = 1000;
const MAX_LEFT_OUT_MS = 30_000;

/** The offers. */
export class Offers {
  readonly #clock: Clock;
  readonly #queue: QueueIndex;
  readonly #poolOf: (name: string) => Pool | undefined;
  readonly #alarm: Alarm;
  /** Oldest first; one that is over has left its member. */
  readonly #open = new Set<Offer>();
  readonly #byLane = new Map<string, number>();
  /** Workers that did not come, until they may be asked again. */
  readonly #leftOut = new Set<Member>();
  /** Workers that wait in a long-poll with a free slot of the class, by profile, longest first. */
  readonly #idle: Readonly<Record<Slots, Map<Profile, Set<Member>>>> = {
    agents: new Map(),
    evaluations: new Map(),
  };

  constructor(clock: Clock, queue: QueueIndex, poolOf: (name: string) => Pool | undefined) {
    this.#clock = clock;
    this.#queue = queue;
    this.#poolOf = poolOf;
    this.#alarm = new Alarm(clock, () => this.#expire());
  }

  /** Leases wait in `lane`: offer them to as many idle workers as no open offer covers. */
  pump(lane: string): void {
    const slots = this.#queue.slotsOf(lane);
    if (slots === null) return;
    let wanted = this.#uncovered(lane);
    for (const [profile, members] of this.#idle[slots]) {
      if (wanted <= 0) return;
      if (!this.#queue.fits(profile, lane)) continue;
      for (const member of members) {
        if (wanted <= 0) return;
        if (this.#isFree(member, slots)) {
          this.#make(member, lane);
          member.poll?.("work");
          wanted--;
        } else {
          this.#leave(member, slots);
        }
      }
    }
  }

  /** {@linkcode pump} for every lane in which something waits. */
  pumpAll(): void {
    for (const { text } of this.#queue.waiting()) this.pump(text);
  }

  /** Whether `member`, which asks for messages, is to be told that work waits; it then has an open offer. */
  claim(member: Member): boolean {
    if (member.offer !== null) return false;
    for (const slots of SLOTS) {
      if (!this.#isFree(member, slots)) continue;
      for (const lane of this.#queue.fitting(member.profile, slots)) {
        if (this.#uncovered(lane) <= 0) continue;
        this.#make(member, lane);
        return true;
      }
    }
    return false;
  }

  /** Something about `member` changed: whether it waits, its slots, its host, its standing. */
  reconsider(member: Member): void {
    for (const slots of SLOTS) {
      if (member.poll !== null && this.#isFree(member, slots)) this.#enter(member, slots);
      else this.#leave(member, slots);
    }
  }

  /** `member` came and took a lease: it will come again until there is none for it. */
  taken(member: Member): void {
    member.ignored = 0;
    member.offerAfter = -Infinity;
    const { offer } = member;
    if (offer === null) return;
    offer.due = this.#clock.monotonic() + OFFER_MS;
    // To the end of the line.
    this.#open.delete(offer);
    this.#open.add(offer);
  }

  /** `member` came and took nothing: what it was offered goes to others. */
  refused(member: Member): void {
    member.ignored = 0;
    member.offerAfter = -Infinity;
    const { offer } = member;
    if (offer !== null) this.#end(offer);
    this.reconsider(member);
    if (offer !== null) this.pump(offer.lane);
  }

  /** `member` is gone. */
  forget(member: Member): void {
    if (member.offer !== null) this.#end(member.offer);
    for (const slots of SLOTS) this.#leave(member, slots);
    this.#leftOut.delete(member);
  }

  close(): void {
    this.#alarm.clear();
  }

  #uncovered(lane: string): number {
    return this.#queue.count(lane) - (this.#byLane.get(lane) ?? 0);
  }

  #isFree(member: Member, slots: Slots): boolean {
    if (member.closed || member.outOfDisk || member.offer !== null) return false;
    if (member.offerAfter > this.#clock.monotonic()) return false;
    const pool = this.#poolOf(member.profile.pool);
    if (pool === undefined || pressure(pool, member.sample) !== null) return false;
    return !isFull(pool, slots, member.counts[slots]);
  }

  #enter(member: Member, slots: Slots): void {
    const idle = this.#idle[slots];
    const members = idle.get(member.profile);
    if (members === undefined) idle.set(member.profile, new Set([member]));
    else members.add(member);
  }

  #leave(member: Member, slots: Slots): void {
    const idle = this.#idle[slots];
    const members = idle.get(member.profile);
    if (members?.delete(member) && members.size === 0) idle.delete(member.profile);
  }

  #make(member: Member, lane: string): void {
    const offer: Offer = { member, lane, due: this.#clock.monotonic() + OFFER_MS };
    member.offer = offer;
    this.#open.add(offer);
    this.#byLane.set(lane, (this.#byLane.get(lane) ?? 0) + 1);
    for (const slots of SLOTS) this.#leave(member, slots);
    this.#alarm.at(offer.due);
  }

  #end(offer: Offer): void {
    if (!this.#open.delete(offer)) return;
    offer.member.offer = null;
    const left = (this.#byLane.get(offer.lane) ?? 0) - 1;
    if (left > 0) this.#byLane.set(offer.lane, left);
    else this.#byLane.delete(offer.lane);
  }

  #expire(): void {
    const now = this.#clock.monotonic();
    const lanes = new Set<string>();
    for (const offer of this.#open) {
      if (offer.due > now) break;
      this.#end(offer);
      this.#leaveOut(offer.member, now);
      lanes.add(offer.lane);
    }
    for (const lane of lanes) this.pump(lane);
    this.#readmit(now);
    for (const offer of this.#open) {
      this.#alarm.at(offer.due);
      break;
    }
    for (const member of this.#leftOut) this.#alarm.at(member.offerAfter);
  }

  #leaveOut(member: Member, now: number): void {
    member.offerAfter = now + Math.min(OFFER_MS * 2 ** member.ignored, MAX_LEFT_OUT_MS);
    member.ignored = Math.min(member.ignored + 1, 10);
    this.#leftOut.add(member);
    this.reconsider(member);
  }

  /** Ask again those who were left out long enough. */
  #readmit(now: number): void {
    for (const member of this.#leftOut) {
      if (member.offerAfter > now) continue;
      this.#leftOut.delete(member);
      this.reconsider(member);
      if (member.poll !== null && this.claim(member)) member.poll("work");
    }
  }
}
