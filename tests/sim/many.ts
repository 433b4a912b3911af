/** @module Many seeds on several processes. */

/** A seed that broke a rule. */
export interface Failure {
  readonly seed: number;
  readonly rule: string;
  readonly message: string;
}

/** What many seeds came to. Seconds: virtual, and real. */
export interface Many {
  readonly failures: readonly Failure[];
  readonly seconds: number;
  readonly wall: number;
}

/** Simulate `count` seeds from `first` on, in `processes` processes. */
export async function simulateMany(
  first: number,
  count: number,
  processes: number,
): Promise<Many> {
  const began = performance.now();
  const share = Math.ceil(count / processes);
  const parts: Promise<Many>[] = [];
  for (let from = first; from < first + count; from += share) {
    parts.push(simulatePart(from, Math.min(share, first + count - from)));
  }
  const done = await Promise.all(parts);
  return {
    failures: done.flatMap(({ failures }) => failures),
    seconds: done.reduce((sum, { seconds }) => sum + seconds, 0),
    wall: (performance.now() - began) / 1000,
  };
}

async function simulatePart(first: number, count: number): Promise<Many> {
  const main = new URL("./main.ts", import.meta.url).pathname;
  const { stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", main, `${first}`, `${count}`],
    stdin: "null",
  }).output();
  const lines = new TextDecoder().decode(stdout).trim().split("\n");
  const last: Many & { seeds?: number } = JSON.parse(lines.at(-1) || "{}");
  if (last.seeds === undefined) {
    throw new Error(`seeds from ${first} on did not run: ${new TextDecoder().decode(stderr)}`);
  }
  return { ...last, failures: lines.slice(0, -1).map((line) => JSON.parse(line)) };
}
