/** @module Figures of agents: how soon one starts, how soon what it writes shows, and many at once on one worker. */

import { AgentCluster, type AgentResult } from "../e2e/agent_cluster.ts";
import { compiledFile } from "../e2e/compiled.ts";
import { until } from "../kit/mod.ts";
import { makeLargeRepository } from "../kit/large_repository.ts";
import type { Figure } from "./figure.ts";
import { linesOf } from "./lines.ts";

const WARM = 10;
const MARKS = 15;
const AT_ONCE = 20;
/** Ticks of `/proc/<pid>/stat` in a second. */
const TICKS = 100;

function quantile(values: readonly number[], q: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))] ?? NaN;
}

/** Seconds of CPU that a process and those of its children that ended have used. */
async function cpuSeconds(pid: number): Promise<number> {
  const stat = await Deno.readTextFile(`/proc/${pid}/stat`);
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0) / TICKS;
}

class Bench {
  readonly figures: Figure[] = [];

  constructor(readonly agents: AgentCluster, readonly what: string) {}

  add(name: string, value: number, unit: string, conditions: string): void {
    this.figures.push({ name, value, unit, conditions: `${this.what}; ${conditions}` });
  }

  /** Ask for an agent that says when it began; milliseconds from the request to that. */
  async start(name: string): Promise<{ queued: AgentResult; ms: Promise<number> }> {
    const from = Date.now();
    const path = `${this.agents.root}/began-${name}`;
    const queued = await this.agents.cluster.api<AgentResult>("POST", "/v1/agents", {
      campaign: this.agents.campaign,
      harness: "claude",
      prompt: `$ date +%s%3N >${path}`,
    });
    const began = until(`agent ${name} begins`, async () => {
      const text = await Deno.readTextFile(path).catch(() => "");
      return text.endsWith("\n") ? Number(text) : null;
    }, 300);
    return { queued, ms: began.then((at) => at - from) };
  }

  /** A worker that has nothing, then one that has the repository and its files. */
  async starts(): Promise<void> {
    const { agents } = this;
    const on = "2,000 commits, 5,000 files (20 MB); request to the first word of its harness";
    await agents.worker("ada");
    const cold = await this.start("cold");
    this.add("agent starts, cold worker", await cold.ms, "ms", on);
    await agents.ended(cold.queued);
    const before = await cpuSeconds(agents.cluster.programs.pid("ada"));
    const times: number[] = [];
    for (let n = 0; n < WARM; n++) {
      const warm = await this.start(`warm-${n}`);
      times.push(await warm.ms);
      await agents.ended(warm.queued);
    }
    const used = await cpuSeconds(agents.cluster.programs.pid("ada")) - before;
    this.add("agent starts, warm worker", quantile(times, 0.5), "ms", `${on}; p50 of ${WARM}`);
    this.add(
      "CPU of an agent, warm worker",
      used / WARM * 1000,
      "ms",
      "user and system of the worker, its git and the stub harness, start to report",
    );
  }

  /** From a line in the session's file to `sublet attach` printing it. */
  async shows(): Promise<void> {
    const { agents } = this;
    const queued = await agents.queue(
      `sleep 4; f=$(ls $HOME/.claude/projects/*/*.jsonl -t | head -n 1); n=0; ` +
        `while [ $n -lt ${MARKS} ]; do n=$((n + 1)); echo "{\\"mark\\":$(date +%s%3N)}" >>"$f"; sleep 1.$((n * 7 % 10)); done`,
    );
    await agents.state(queued, "running");
    const attach = agents.cluster.programs.command("server", [
      "attach",
      String(queued.job),
      "--raw",
    ]).spawn();
    const delays: number[] = [];
    for await (const line of linesOf(attach.stdout)) {
      const mark = /"mark":(\d+)/.exec(line)?.[1];
      if (mark !== undefined) delays.push(Date.now() - Number(mark));
    }
    await attach.stderr.cancel();
    await attach.status;
    const on = `${delays.length} lines, 1 to 2 s apart`;
    this.add("session line to attach, p50", quantile(delays, 0.5), "ms", on);
    this.add("session line to attach, max", Math.max(...delays), "ms", on);
  }

  async manyAtOnce(): Promise<void> {
    const { agents } = this;
    const started = await Promise.all(
      Array.from({ length: AT_ONCE }, (_, n) => this.start(`many-${n}`)),
    );
    const times = await Promise.all(started.map(({ ms }) => ms));
    await Promise.all(started.map(({ queued }) => agents.ended(queued)));
    const on = `${AT_ONCE} requests at once, warm worker, 2,000 commits, 5,000 files`;
    this.add("20 agents at once, median start", quantile(times, 0.5), "ms", on);
    this.add("20 agents at once, last start", Math.max(...times), "ms", on);
  }
}

/** The figures. */
export async function run(): Promise<Figure[]> {
  const { path, skipped } = await compiledFile();
  const what = path === null ? `from source (${skipped})` : "compiled file, deno 2.6.10";
  await using agents = await AgentCluster.make({
    agents: AT_ONCE,
    ...(path === null ? {} : { binary: path }),
  });
  const { programs } = agents.cluster;
  const repo = `${agents.root}/large`;
  await makeLargeRepository(repo);
  await programs.write("large/sublet.toml", LARGE);
  await programs.git(repo, "add", "--all");
  await programs.git(repo, "commit", "--quiet", "--message", "a campaign");
  await programs.sublet("server", ["init", repo, "--no-measure"]);
  agents.campaign = "large";
  const bench = new Bench(agents, what);
  await bench.starts();
  await bench.shows();
  await bench.manyAtOnce();
  return bench.figures;
}

const LARGE = `name = "large"
evaluate = ["true"]
[[metrics]]
name = "score"
direction = "higher"
role = "primary"
`;
