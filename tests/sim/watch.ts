/** @module What must hold of what the server says and when it says it, beside what is in its database. */

import type { Timing } from "../../lib/lease/mod.ts";
import type { Changes } from "./feed.ts";
import type { Machine } from "./machine.ts";
import { isOpen, type Model } from "./model.ts";
import type { Delivery } from "./network.ts";
import type { Run } from "./runs.ts";
import type { SimWorker } from "./worker.ts";
import type { World } from "./world.ts";

/** A request, parsed as far as the rules need it. */
interface Asked {
  readonly call: string;
  readonly lease: number;
  readonly message: number;
  readonly request: string;
}

/** Looks at every answer of the server and at every change. */
export class Watch {
  /** World time of the last renewal that was answered, by lease. */
  readonly #renewed = new Map<number, number>();
  /** World time at which each lease ended. */
  readonly #ended = new Map<number, number>();
  /** World time at which each request came. */
  readonly #came = new WeakMap<Delivery, number>();
  /** World time at which the last request of each incarnation came that was answered, and the machine that it is on. */
  readonly #heard = new Map<string, number>();
  /** Processes that said that they ended. */
  readonly #left = new Set<string>();
  readonly machineOf = new Map<string, string>();
  /** When the server last woke after it had been away for longer than the grace period, and since when it was. */
  #backAt = -Infinity;
  #goneAt = -Infinity;

  constructor(
    private readonly world: World,
    private readonly timing: Timing,
    private readonly server: () => Machine,
    private readonly model: () => Model,
  ) {}

  /** Prompts that each process delivered. */
  readonly #prompted = new Set<string>();
  /** Leases whose report is in a spool. */
  readonly #spooled = new Set<number>();

  /** Forget what belongs to a database that is gone. */
  reset(): void {
    this.#renewed.clear();
    this.#ended.clear();
    this.#heard.clear();
    this.#prompted.clear();
    this.#spooled.clear();
  }

  prompted(process: string, prompt: string): void {
    const delivery = `${process} ${prompt}`;
    if (this.#prompted.has(delivery)) {
      this.world.broken("a process delivers a prompt once", delivery);
    }
    this.#prompted.add(delivery);
  }

  spooled(lease: number, kept: boolean): void {
    if (kept) this.#spooled.add(lease);
    else this.#spooled.delete(lease);
  }

  /** The server stood still for `ms` milliseconds of the world, and wakes. */
  woke(ms: number): void {
    // It notices at its next look, which it planned at most a renew period after the last one.
    const { grace, renew } = this.timing;
    if (ms <= (grace + renew + 1) * 1000 * 1.05) return;
    this.#backAt = this.world.now;
    this.#goneAt = this.world.now - ms;
  }

  changed(changes: Changes): void {
    const { now } = this.world;
    for (const { id, before, after } of changes.leases) {
      if (!isOpen(after.state) && before?.state !== after.state) this.#ended.set(id, now);
      if (after.state === "acquired" && before?.state === "queued") this.#renewed.set(id, now);
    }
    for (const { after: { event, lease } } of changes.events) {
      if (event === "expired" && lease !== null) this.#checkExpiry(lease);
    }
    for (const { before, after } of changes.workers) {
      this.#checkReplaced(after.name, before?.incarnation ?? null, after.incarnation);
    }
  }

  /**
   * A run that ends must have been renewed lately: the guard looks every second, and a job takes five to stop. The
   * worker counts from when it sent a call, which is before the server answered it.
   */
  ended({ lease, machine }: Run): void {
    const { now } = this.world;
    const renewed = this.#renewed.get(lease);
    if (renewed === undefined || machine.still !== null || machine.wokeAt > renewed) return;
    const { renew, toleration } = this.timing;
    const most = ((toleration - 2 * renew) * 1000 + 1_000 + 5_000) / machine.rate + 1;
    if (now - renewed <= most) return;
    this.world.broken(
      "a worker stops what was not renewed",
      `lease ${lease} ran on ${machine.name} for ${(now - renewed) / 1000} s after it was renewed`,
    );
  }

  /** `worker` hears that leases are stale: it stops their jobs. */
  heard(worker: SimWorker, leases: readonly number[]): void {
    const { process, machine } = worker;
    const { now } = this.world;
    this.world.at(now + 6_500, () => {
      if (worker.process !== process || machine.still !== null || machine.wokeAt > now) return;
      const left = leases.filter((lease) => worker.running.includes(lease));
      if (left.length > 0) {
        this.world.broken("a stale lease's job stops", `${machine.name} still runs ${left}`);
      }
    });
  }

  #checkExpiry(lease: number): void {
    const { now } = this.world;
    const least = this.timing.toleration * 1000 / this.server().rate - 1;
    const renewed = this.#renewed.get(lease) ?? -Infinity;
    // A suspended server's clock stands still: it may only be late.
    if (now - renewed < least) {
      this.world.broken(
        "a lease is not lost before its time",
        `lease ${lease} expired ${(now - renewed) / 1000} s after it was renewed`,
      );
    }
    // What was overdue before is no matter of the server's absence.
    if (now - this.#backAt < least && this.#goneAt - renewed < least) {
      this.world.broken(
        "a server that was away forgives",
        `lease ${lease} expired ${(now - this.#backAt) / 1000} s after the server was back`,
      );
    }
  }

  #checkReplaced(name: string, old: string | null, next: string | null): void {
    if (old === null || next === null || old === next) return;
    if (this.machineOf.get(old) === this.machineOf.get(next)) return;
    const heard = this.#heard.get(old);
    if (heard === undefined || this.#left.has(old)) return;
    const silent = this.world.now - heard;
    if (silent >= this.timing.grace * 1000 / this.server().rate - 1) return;
    this.world.broken(
      "a living process is not replaced",
      `${next} took the name ${name} from ${old}, which was heard ${silent / 1000} s ago`,
    );
  }

  /**
   * A request comes in. Whoever says that it ended is no living process from then on, whatever the answer is. The lease
   * that it gives back for a fault of its machine, or null.
   */
  asked(delivery: Delivery): number | null {
    this.#came.set(delivery, this.world.now);
    const incarnation = delivery.headers["sublet-incarnation"];
    if (incarnation !== undefined && parse(delivery).call === "leave") this.#left.add(incarnation);
    return delivery.headers["sublet-host-fault"] === "1" ? parse(delivery).lease : null;
  }

  /** The server is about to answer. */
  answered(delivery: Delivery, status: number, body: Uint8Array): void {
    const asked = parse(delivery);
    if (status === 409) return this.#refused(asked, body);
    if (status !== 200 && status !== 204) return;
    const incarnation = delivery.headers["sublet-incarnation"];
    const heard = ["register", "acquire", "heartbeat"].includes(asked.call);
    if (incarnation !== undefined && heard) {
      // A request may wait for the database, during which its sender is silent.
      this.#heard.set(incarnation, this.#came.get(delivery) ?? this.world.now);
    }
    const answer = status === 204 ? null : JSON.parse(new TextDecoder().decode(body));
    if (asked.call === "register") {
      for (const { lease } of answer.held) this.#renewed.set(lease, this.world.now);
    }
    if (asked.call === "heartbeat") {
      for (const [lease, said] of Object.entries(answer)) {
        if (said === "stale") continue;
        this.#renewed.set(Number(lease), this.world.now);
        if ((this.#ended.get(Number(lease)) ?? Infinity) >= this.world.now) continue;
        this.world.broken("what is over is not renewed", `lease ${lease} was answered as ${said}`);
      }
    }
    this.#checkDurable(delivery.worker, asked, answer);
  }

  #checkDurable(worker: string, asked: Asked, answer: unknown): void {
    const granted = typeof answer === "object" && answer !== null && "lease" in answer;
    const id = granted ? Number(answer.lease) : asked.lease;
    const lease = this.model().leases.get(id);
    if (asked.call === "lost" && this.#spooled.has(asked.lease)) {
      this.world.broken("what is finished is not given back", `lease ${asked.lease} of ${worker}`);
    }
    const right = {
      report: () => lease?.state === "reported",
      acquire: () => !granted || lease?.worker === worker && lease.state !== "queued",
      started: () => lease?.worker === worker && !["queued", "acquired"].includes(lease.state),
      lost: () => lease?.state === "expired",
      queued: () => this.model().mails.get(asked.message)?.answered === true,
    }[asked.call];
    if (right === undefined || right()) return;
    this.world.broken(
      "an answer is given once it is durable",
      `${worker} was answered to ${asked.call} of ${id}, and the lease is ${lease?.state}`,
    );
  }

  #refused({ call, lease, request }: Asked, body: Uint8Array): void {
    if (call !== "report") return;
    const known = this.model().leases.get(lease);
    const text = new TextDecoder().decode(body);
    if (known?.state !== "reported" || known.report !== request || !text.includes("stale")) return;
    this.world.broken("a report that is sent again gets its receipt", `lease ${lease}: ${text}`);
  }
}

function parse({ path, body }: Delivery): Asked {
  const json = JSON.parse(new TextDecoder().decode(body));
  return {
    call: path.split("/").at(-1) ?? "",
    lease: json.lease ?? 0,
    message: json.message ?? 0,
    request: json.request_id ?? "",
  };
}
