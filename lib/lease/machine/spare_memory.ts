/** @module A worker waits most of its life: what its start needed goes back to the machine once it is ready. */

/** What V8 offers where it was started with `--expose-gc`, as the compiled file is. */
interface Collector {
  (options: { type: "major"; execution: "async"; flavor: "last-resort" }): Promise<void>;
}

/** Collect this thread's garbage and give the memory back, if this process may. */
export async function spareMemory(): Promise<void> {
  const collect = (globalThis as { gc?: Collector }).gc;
  await collect?.({ type: "major", execution: "async", flavor: "last-resort" });
}
