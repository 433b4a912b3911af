/** @module The pieces of the demo: a home, a server, a store, workers, a campaign; all real processes. */

import { fileURLToPath } from "node:url";
import { Programs } from "./programs.ts";

/** What the server says of one evaluation (`sublet eval --json`), as far as the demo reads it. */
export interface Evaluation {
  readonly job: number;
  readonly evaluation: number;
  readonly revision: string;
  readonly subject: string;
  readonly state: string;
  readonly metrics: Readonly<Record<string, number>>;
  readonly worker: string | null;
  readonly lease: number | null;
  readonly attempts: number;
  readonly seconds: number | null;
  readonly error: string | null;
}

/** A lease of a job (`sublet job show --json`). */
export interface Lease {
  readonly lease: number;
  readonly state: string;
  readonly worker: string | null;
  readonly reason?: string | null;
}

/** An evaluation that ended, and every lease of its job. */
export interface Finished {
  readonly evaluation: Evaluation;
  readonly leases: readonly Lease[];
}

const TIMING = "renew_seconds = 0.5\ngrace_seconds = 1.5\ntoleration_seconds = 4\n";

/** A running demonstration. */
export class Demo implements AsyncDisposable {
  readonly #programs: Programs;
  readonly #server: string;
  readonly #cas: string;
  #revisions: string[] = [];
  #evaluations: Promise<Evaluation[]> | null = null;

  private constructor(programs: Programs, server: string, cas: string) {
    this.#programs = programs;
    this.#server = server;
    this.#cas = cas;
  }

  /** A home in a temporary directory, with `serve` and `cas serve` on loopback. */
  static async start(options: { binary: string | null; keep: boolean }): Promise<Demo> {
    const programs = await Programs.make(options);
    try {
      await programs.write(
        "server/config.toml",
        `[plugins.executor]\n${TIMING}` +
          "[plugins.executor.pools.serve]\nagents = 0\nevaluations = 0\n" +
          "[plugins.executor.pools.lab]\nevaluations = 1\n",
      );
      const server = await programs.background("server", "server", [
        "serve",
        "--listen",
        "127.0.0.1:0",
      ], /^serving on (http\S+)/m);
      const cas = await programs.background("cas", "server", [
        "cas",
        "serve",
        "--listen",
        "127.0.0.1:0",
      ], /^cas serving on (\S+)/m);
      console.log(`server ${server}\nstore  ${cas}`);
      return new Demo(programs, server, cas);
    } catch (error) {
      await programs[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** A git repository with one commit a model, registered as a campaign. */
  async makeCampaign(models: readonly (readonly [string, string])[]): Promise<void> {
    const repo = `${this.#programs.root}/repo`;
    const here = fileURLToPath(new URL(".", import.meta.url));
    await Deno.mkdir(`${repo}/data`, { recursive: true });
    await this.#programs.git(repo, "init", "--quiet", "--initial-branch=main");
    await Deno.copyFile(`${here}evaluate.ts`, `${repo}/evaluate.ts`);
    await Deno.copyFile(`${here}data/penguins.csv`, `${repo}/data/penguins.csv`);
    await Deno.copyFile(`${here}data/README.md`, `${repo}/data/README.md`);
    await this.#programs.write("repo/sublet.toml", campaignFile());
    for (const [model, subject] of models) {
      await Deno.copyFile(`${here}models/${model}.ts`, `${repo}/model.ts`);
      await this.#programs.git(repo, "add", "--all");
      await this.#programs.git(repo, "commit", "--quiet", "--message", subject);
      this.#revisions.push((await this.#programs.git(repo, "rev-parse", "HEAD")).trim());
    }
    await this.#programs.sublet("server", ["init", repo, "--no-measure"]);
    console.log(`campaign of ${this.#revisions.length} commits in ${repo}`);
  }

  /** A worker with a home of its own and a token of its own. */
  async startWorker(name: string): Promise<void> {
    const token = (await this.#programs.sublet("server", ["token", "create", name])).trim();
    await this.#programs.write(
      `${name}/config.toml`,
      `[plugins.cas]\nprovider = "http"\nurl = "${this.#cas}"\n`,
    );
    await this.#programs.background(
      name,
      name,
      ["worker", "--server", this.#server, "--pool", "lab"],
      /^worker (\S+) in pool lab: connected to/m,
      { SUBLET_HTTPS_TOKEN: token },
    );
    console.log(`worker ${name} is connected`);
  }

  /** Queue every commit, and go on while they run. The slow ones go first, so that a kill meets one. */
  async queueAll(): Promise<void> {
    const revisions = [...this.#revisions].reverse();
    const argv = ["eval", ...revisions, "--json", "--campaign", "penguins"];
    this.#evaluations = this.#programs.sublet("server", argv, { mayFail: true })
      .then((text) =>
        text.trim().split("\n").filter((line) => line !== "").map((line) => JSON.parse(line))
      );
    await Promise.resolve();
  }

  /** Wait until `worker` runs a job, kill the worker with SIGKILL, and return the job. */
  async killBusyWorker(worker: string): Promise<number> {
    while (true) {
      const text = await this.#programs.sublet("server", [
        "job",
        "list",
        "--json",
        "--state",
        "open",
      ]);
      const jobs: {
        job: number;
        worker: string | null;
        running?: boolean;
        lease_state?: string;
      }[] = text.trim()
        .split("\n").filter((line) => line !== "").map((line) => JSON.parse(line));
      const busy = jobs.find((job) => job.worker === worker && job.lease_state === "running");
      if (busy !== undefined) {
        this.#programs.kill(worker);
        console.log(`worker ${worker} killed with SIGKILL while it ran job ${busy.job}`);
        return busy.job;
      }
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  /** Every evaluation with its leases, in order of the commits. */
  async results(): Promise<Finished[]> {
    const evaluations = await this.#evaluations ?? [];
    const order = new Map(this.#revisions.map((revision, i) => [revision, i]));
    const sorted = evaluations.toSorted((a, b) =>
      (order.get(a.revision) ?? 0) - (order.get(b.revision) ?? 0)
    );
    return await Promise.all(sorted.map(async (evaluation) => {
      const job = JSON.parse(
        await this.#programs.sublet("server", ["job", "show", String(evaluation.job), "--json"]),
      );
      return { evaluation, leases: job.leases };
    }));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#programs[Symbol.asyncDispose]();
  }
}

function campaignFile(): string {
  const command = [
    Deno.execPath(),
    "run",
    "--no-config",
    "--no-lock",
    "--allow-read",
    "--allow-env",
    "--allow-write",
    "evaluate.ts",
  ];
  return `name = "penguins"
evaluate = ${JSON.stringify(command)}
evaluate_timeout = 300

[[metrics]]
name = "errors"
direction = "lower"
role = "primary"

[[metrics]]
name = "accuracy"
direction = "higher"

[[metrics]]
name = "log_loss"
direction = "lower"
`;
}
