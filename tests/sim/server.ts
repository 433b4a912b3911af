/** @module The server: processes that come and go, on one machine and one database. */

import { messageOf } from "../../lib/home/mod.ts";
import { LeaseEngine, LeaseRoutes, type Timing } from "../../lib/lease/mod.ts";
import type { Caller } from "../../lib/net/mod.ts";
import type { Db } from "../../lib/store/mod.ts";
import type { Backup, Disk } from "./database.ts";
import { KINDS } from "./kinds.ts";
import { Machine, Process } from "./machine.ts";
import type { Delivery, Reply } from "./network.ts";
import type { Random } from "./random.ts";
import type { Blobs } from "./store.ts";
import type { World } from "./world.ts";

/** What servers are made with. */
export interface ServerOptions {
  readonly world: World;
  readonly random: Random;
  readonly disk: Disk;
  readonly blobs: Blobs;
  readonly machine: Machine;
  readonly timing: Timing;
  readonly pools: Readonly<Record<string, { agents: number; evaluations: number }>>;
  /** Sees every request as it comes in. */
  readonly onRequest: (delivery: Delivery) => void;
  /** Sees every answer before it leaves. */
  readonly onAnswer: (delivery: Delivery, status: number, body: Uint8Array) => void;
  /** The server answers from now on. */
  readonly onReady: () => void;
  /** The server is about to close in good order. */
  readonly onClose: () => Promise<void>;
  /** A process of the server is gone. */
  readonly onDown: () => void;
  /** Sees what the server logs. */
  readonly onLog: (event: string, fields: Record<string, unknown>) => void;
}

/** Who calls, as the network says. */
const BY_HEADER = {
  known: (headers: Headers): Caller => ({
    name: headers.get("x-worker") ?? "",
    access: "worker",
    pool: null,
  }),
  identify: (headers: Headers) => Promise.resolve(BY_HEADER.known(headers)),
};

/** One process of the server. */
interface Life {
  readonly process: Process;
  readonly engine: LeaseEngine;
  readonly db: Db;
  readonly routes: LeaseRoutes;
  readonly replies: Set<(reply: Reply) => void>;
  ready: boolean;
}

/** The server. */
export class SimServer {
  #life: Life | null = null;
  #lives = 0;
  /** Whether somebody will start it again. */
  #starting = false;

  constructor(readonly options: ServerOptions) {}

  /** The engine, when the server is up. */
  get engine(): LeaseEngine | null {
    return this.#life?.ready === true ? this.#life.engine : null;
  }

  get db(): Db | null {
    return this.#life?.ready === true ? this.#life.db : null;
  }

  get up(): boolean {
    return this.#life !== null;
  }

  /** Start a process `ms` milliseconds from now, and again until one starts. */
  startIn(ms: number): void {
    if (this.#starting || this.#life !== null) return;
    this.#starting = true;
    const { world, machine } = this.options;
    world.at(world.now + ms, () =>
      machine.awake(() => {
        this.#starting = false;
        if (this.#life === null) void this.#start();
      }));
  }

  async #start(): Promise<void> {
    const { world, machine, random, disk, blobs, timing, pools } = this.options;
    const process = new Process(machine, `server#${++this.#lives}`, random.fork());
    const db = disk.connect(process);
    const log = {
      event: (event: string, fields: Record<string, unknown> = {}) => {
        if (!process.alive) return;
        world.note(`${process.name} ${event} ${JSON.stringify(fields)}`);
        this.options.onLog(event, fields);
      },
    };
    const engine = new LeaseEngine({
      db,
      cas: blobs.for(process),
      clock: process.clock,
      ids: process.ids,
      log,
      kinds: KINDS,
      timing,
      pools,
    });
    const routes = new LeaseRoutes(engine, BY_HEADER, {
      send: () => Promise.resolve(null),
      version: "0.0.0",
      log,
    });
    const life: Life = { process, engine, db, routes, replies: new Set(), ready: false };
    this.#life = life;
    process.onDeath = () => this.#died(life);
    world.note(`${process.name} starts`);
    try {
      await engine.start();
      life.ready = true;
      this.options.onReady();
    } catch (error) {
      world.note(`${process.name} does not start: ${messageOf(error)}`);
      process.die("it could not start");
    }
  }

  #died(life: Life): void {
    if (this.#life === life) this.#life = null;
    this.options.onDown();
    const { random } = this.options;
    for (const reply of life.replies) if (random.chance(0.7)) reply(null);
    life.replies.clear();
    this.startIn(
      random.chance(0.1) ? random.between(60_000, 500_000) : random.between(100, 30_000),
    );
  }

  /** Kill the process. */
  crash(why: string): void {
    this.#life?.process.die(why);
  }

  /** Stop it in good order, and start the next one. */
  async restart(): Promise<void> {
    const life = this.#life;
    if (life === null || !life.ready) return;
    await this.options.onClose();
    if (!life.process.alive) return;
    life.ready = false;
    this.options.world.note(`${life.process.name} closes`);
    try {
      await life.engine.close();
    } catch (error) {
      this.options.world.note(`${life.process.name} does not close: ${messageOf(error)}`);
    }
    life.process.die("it closed");
  }

  /** Kill the process, put an old database in the place of this one, and start again. */
  async restore(backup: Backup): Promise<void> {
    this.crash("a restore");
    const { disk, world } = this.options;
    world.pending++;
    await disk.restore(backup);
    world.pending--;
  }

  deliver(delivery: Delivery, reply: (reply: Reply) => void): void {
    this.options.machine.awake(() => void this.#serve(delivery, reply));
  }

  async #serve(delivery: Delivery, reply: (reply: Reply) => void): Promise<void> {
    const life = this.#life;
    if (life === null) return reply(null);
    life.replies.add(reply);
    const request = new Request(`http://server${delivery.path}`, {
      method: "POST",
      headers: {
        ...delivery.headers,
        "x-worker": delivery.worker,
        "content-length": String(delivery.body.length),
      },
      body: delivery.body,
      signal: delivery.signal,
    });
    this.options.onRequest(delivery);
    const answer = life.routes.answer(request, {
      address: delivery.unix ? null : "10.0.0.1",
      unix: delivery.unix,
    });
    if (answer === null) throw new Error(`${delivery.path} is no path of workers`);
    const response = await answer;
    const body = new Uint8Array(await response.arrayBuffer());
    if (!life.process.alive) return;
    this.options.onAnswer(delivery, response.status, body);
    life.replies.delete(reply);
    reply({ status: response.status, headers: response.headers, body });
  }
}
