/** @module The machine's processes with a record of what was asked of them, for tests. */

import type {
  ExecResult,
  ExecSpec,
  Exit,
  Processes,
  ProcessRef,
  StartSpec,
} from "../../lib/home/mod.ts";
import { systemProcesses } from "../../lib/lease/machine/processes.ts";

export { tagged } from "../../lib/lease/machine/process_table.ts";

/** Real processes, started with what of this environment the worker's allow-list lets through. */
export class TestProcesses implements Processes {
  readonly #real = systemProcesses();
  /** Until it resolves no end of a process is told, as if whoever waits were gone. */
  deaf: Promise<void> = Promise.resolve();
  /** Every start, in order. */
  readonly started: StartSpec[] = [];
  /** Every helper's argv, in order. */
  readonly helpers: (readonly string[])[] = [];

  start(spec: StartSpec): Promise<ProcessRef> {
    this.started.push(spec);
    return this.#real.start(spec);
  }

  async wait(ref: ProcessRef): Promise<Exit> {
    const exit = await this.#real.wait(ref);
    await this.deaf;
    return exit;
  }

  alive(ref: ProcessRef): Promise<boolean> {
    return this.#real.alive(ref);
  }

  stop(ref: ProcessRef, tag: string | null, graceMs: number, place?: string): Promise<void> {
    return this.#real.stop(ref, tag, graceMs, place);
  }

  exec(spec: ExecSpec): Promise<ExecResult> {
    this.helpers.push(spec.argv);
    return this.#real.exec(spec);
  }
}
