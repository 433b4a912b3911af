/** @module The workers that the server knows, and the leases that they hold, in its memory. */

import { SubletError } from "../home/mod.ts";
import { Superseded } from "./superseded.ts";
import { Profiles } from "./lanes.ts";
import type { LiveLease, Member, WorkerCaller } from "./member.ts";

/** Workers by name, and live leases by id. */
export class Roster {
  readonly #members = new Map<string, Member>();
  readonly profiles = new Profiles();
  readonly live = new Map<number, LiveLease>();

  get(name: string): Member | undefined {
    return this.#members.get(name);
  }

  all(): IterableIterator<Member> {
    return this.#members.values();
  }

  get size(): number {
    return this.#members.size;
  }

  add(member: Member): void {
    this.#members.set(member.name, member);
  }

  remove(member: Member): void {
    if (this.#members.delete(member.name)) this.profiles.release(member.profile);
  }

  /** `lease` is live, held by the worker that it names. */
  hold(lease: LiveLease): void {
    this.live.set(lease.id, lease);
    this.#members.get(lease.worker)?.hold(lease);
  }

  /** The lease is over; what it was, when it was live. */
  release(id: number): LiveLease | null {
    const lease = this.live.get(id);
    if (lease === undefined) return null;
    this.live.delete(id);
    this.#members.get(lease.worker)?.release(lease);
    return lease;
  }

  /**
   * The worker that calls. Throws `superseded` when another process of its name took its place, `unknown_worker` when
   * it must register first, and `permission_denied` when its credential is for another pool.
   */
  check(caller: WorkerCaller): Member {
    const member = this.#members.get(caller.name);
    if (member === undefined) throw unknownWorker(caller.name);
    if (member.incarnation !== caller.incarnation) throw strangerError(member, caller);
    checkPool(caller, member.profile.pool);
    return member;
  }
}

/** Throws `permission_denied` unless the caller's credential admits `pool`. */
export function checkPool(caller: WorkerCaller, pool: string): void {
  if (caller.pool === null || caller.pool === pool) return;
  throw new SubletError(
    "permission_denied",
    `the token ${caller.name} is for workers of the pool ${caller.pool}, not of ${pool}: start the worker ` +
      `with --pool ${caller.pool}, or give it another token`,
  );
}

/** What a process of `known`'s name hears that is not the one that registered last. */
export function strangerError(
  known: Pick<Member, "name" | "former">,
  caller: WorkerCaller,
): SubletError {
  const replaced = caller.incarnation === null || known.former.includes(caller.incarnation);
  return replaced ? superseded(known.name) : unknownWorker(known.name);
}

/** Another process has the name, for `seconds` unless it is heard again; null: for good. */
export function superseded(name: string, seconds: number | null = null): Superseded {
  return new Superseded(
    `another process already works as ${name}: stop it, or give this one a token of its own ` +
      `(sublet token create NAME)`,
    seconds,
  );
}

function unknownWorker(name: string): SubletError {
  return new SubletError("unknown_worker", `the server does not know the worker ${name}: register`);
}
