/** @module Scenes: a few machines, and what a test makes happen between them. */

import assert from "node:assert/strict";
import type { SimJob } from "./runner.ts";
import { type SimOptions, Simulation } from "./simulation.ts";
import type { SimWorker, WorkerSpec } from "./worker.ts";

/** A simulation without faults, whose machines are called by name. */
export class Scene implements AsyncDisposable {
  private constructor(readonly sim: Simulation) {}

  /** A server and the workers of `names`, which have registered. */
  static async of(
    names: readonly string[],
    spec: Partial<WorkerSpec> = {},
    options: SimOptions = {},
  ): Promise<Scene> {
    const scene = new Scene(await Simulation.make(11, options));
    for (const name of names) scene.sim.addWorker(name, spec);
    await scene.run(1);
    for (const worker of scene.sim.workers) worker.start();
    await scene.run(1);
    return scene;
  }

  worker(name: string): SimWorker {
    const found = this.sim.workers.find((worker) => worker.name === name);
    assert(found);
    return found;
  }

  /** Let time pass; no rule may be broken meanwhile. */
  async run(seconds: number): Promise<void> {
    await this.sim.run(seconds);
    assert.deepEqual(this.sim.world.violations.map(String), []);
  }

  /** Let time pass until `what` is so, at most `seconds`; the seconds that it took. */
  async until(what: string, seconds: number, condition: () => boolean): Promise<number> {
    const began = this.sim.world.now;
    const came = await this.sim.run(seconds, condition);
    assert.deepEqual(this.sim.world.violations.map(String), []);
    assert(came, `${what}, within ${seconds} s\n${this.sim.world.log.slice(-40).join("\n")}`);
    return (this.sim.world.now - began) / 1000;
  }

  submit(job: Partial<SimJob> = {}, maxAttempts = 3): string {
    return this.sim.submit(job, { maxAttempts });
  }

  /** The newest lease of a job. */
  lease(key: string): number {
    const job = this.sim.job(key);
    const ids = [...this.sim.model.leases].filter(([, lease]) => lease.job === job);
    return Math.max(0, ...ids.map(([id]) => id));
  }

  /** The states of a job's leases, in order. */
  course(key: string): string[] {
    const job = this.sim.job(key);
    return [...this.sim.model.leases.values()].filter((lease) => lease.job === job).map((lease) =>
      `${lease.worker ?? "nobody"} ${lease.state}`
    );
  }

  /** A job that runs on `name`, which alone may take it. */
  async running(name: string, job: Partial<SimJob> = {}, maxAttempts = 3): Promise<string> {
    for (const other of this.sim.workers) {
      if (other.name !== name) this.sim.network.mute.add(other.name);
    }
    const key = this.submit(job, maxAttempts);
    await this.until(`${key} runs`, 90, () => this.state(key) === "running");
    this.sim.network.mute.clear();
    return key;
  }

  /** The state of a job's newest lease. */
  state(key: string): string | undefined {
    return this.sim.model.leases.get(this.lease(key))?.state;
  }

  async ends(key: string, state: string, seconds = 1_000): Promise<number> {
    const took = await this.until(`${key} ends`, seconds, () => {
      const now = this.sim.stateOf(key);
      return now !== undefined && now !== "open";
    });
    assert.equal(this.sim.stateOf(key), state);
    return took;
  }

  /** Cut `name` off: the server hears it no more, and it does not hear the server. */
  cut(name: string): void {
    this.sim.network.mute.add(name);
    this.sim.network.deaf.add(name);
  }

  mend(name: string): void {
    this.sim.network.mute.delete(name);
    this.sim.network.deaf.delete(name);
  }

  logged(name: string, event: string): boolean {
    return this.sim.world.log.some((line) =>
      line.includes(` ${name}#`) && line.includes(` ${event} `)
    );
  }

  async ask<T>(call: Parameters<Simulation["ask"]>[1]): Promise<T> {
    let answer: Awaited<ReturnType<Simulation["ask"]>> | undefined;
    void this.sim.ask("test", call).then((found) => answer = found);
    await this.until("the server answers", 11, () => answer !== undefined);
    assert(answer !== null && answer !== undefined && "value" in answer, JSON.stringify(answer));
    return answer.value as T;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.sim[Symbol.asyncDispose]();
  }
}
