/** @module A real server, store and workers as processes of their own, for the end-to-end tests. */

import { Programs } from "../../scripts/demo/programs.ts";
import { ApiClient } from "../../lib/cli/api_client.ts";
import { until } from "../kit/mod.ts";

/** What `sublet eval --json` and `job show --json` say, as far as the tests read it. */
export interface EvaluationResult {
  readonly job: number;
  readonly evaluation: number;
  readonly revision: string;
  readonly state: string;
  readonly metrics: Readonly<Record<string, number>>;
  readonly worker: string | null;
  readonly lease: number | null;
  readonly attempts: number;
  readonly error: string | null;
  readonly files: Readonly<Record<string, string>>;
}

export interface JobResult {
  readonly job: number;
  readonly state: string;
  readonly attempts: number;
  readonly reason: string | null;
  readonly leases: readonly {
    readonly lease: number;
    readonly state: string;
    readonly worker: string | null;
    readonly queued_at: string;
    readonly acquired_at: string | null;
    readonly started_at: string | null;
  }[];
  readonly events: readonly {
    readonly at: string;
    readonly event: string;
    readonly lease: number | null;
    readonly fields: unknown;
  }[];
}

/** Short times, so that a silent worker is given up within seconds. */
export const TIMING = { renew: 0.5, grace: 1.5, toleration: 4 };
/** For tests in which nobody may be given up, however busy the machine is. */
export const PATIENT = { renew: 0.5, grace: 60, toleration: 120 };

/**
 * The evaluate script: says that it started, waits for the gate file, prints its metric. Its run is recorded outside of
 * the checkout, so that a test can count runs.
 */
const SCRIPT = `echo "start $$ $(cat value)" >> "$1/runs"
while [ ! -e "$1/gate" ]; do sleep 0.05; done
echo "METRIC score=$(cat value)"
`;

/** The processes of one test. */
export class Cluster implements AsyncDisposable {
  readonly programs: Programs;
  server = "";
  cas = "";
  #port = "0";

  private constructor(programs: Programs) {
    this.programs = programs;
  }

  static async make(
    options: {
      binary?: string | null;
      serveEvaluations?: number;
      serveAgents?: number;
      /** Of each worker of the pool `lab`. */
      agents?: number;
      timing?: typeof TIMING;
    } = {},
  ): Promise<Cluster> {
    const programs = await Programs.make({ binary: options.binary ?? null, keep: false });
    const cluster = new Cluster(programs);
    const timing = options.timing ?? TIMING;
    await programs.write(
      "server/config.toml",
      `[plugins.executor]
renew_seconds = ${timing.renew}
grace_seconds = ${timing.grace}
toleration_seconds = ${timing.toleration}
[plugins.executor.pools.serve]
agents = ${options.serveAgents ?? 0}
evaluations = ${options.serveEvaluations ?? 0}
[plugins.executor.pools.lab]
agents = ${options.agents ?? 0}
evaluations = 1
`,
    );
    return cluster;
  }

  get root(): string {
    return this.programs.root;
  }

  /** Start (or start again, on the same port) the server. */
  async serve(env: Record<string, string> = {}): Promise<void> {
    const listen = `127.0.0.1:${this.#port}`;
    this.server = await this.programs.background(
      "server",
      "server",
      ["serve", "--listen", listen],
      /^serving on (http\S+)/m,
      env,
    );
    this.#port = new URL(this.server).port;
  }

  async serveCas(): Promise<void> {
    const argv = ["cas", "serve", "--listen", "127.0.0.1:0"];
    this.cas = await this.programs.background("cas", "server", argv, /^cas serving on (\S+)/m);
  }

  /**
   * A git repository of `values.length` commits whose script prints each one's value, registered as a campaign. The
   * script gets the root of the cluster as its argument.
   */
  async campaign(values: readonly number[], script = SCRIPT): Promise<string[]> {
    const { programs } = this;
    const repo = `${this.root}/repo`;
    await Deno.mkdir(repo);
    await programs.git(repo, "init", "--quiet", "--initial-branch=main");
    await programs.write("repo/evaluate.sh", script);
    await programs.write(
      "repo/sublet.toml",
      `name = "steps"\nevaluate = ["sh", "evaluate.sh", ${
        JSON.stringify(this.root)
      }]\nevaluate_timeout = 120\n` +
        `[[metrics]]\nname = "score"\ndirection = "higher"\nrole = "primary"\n`,
    );
    const revisions: string[] = [];
    for (const value of values) {
      await programs.write("repo/value", `${value}\n`);
      await programs.git(repo, "add", "--all");
      await programs.git(repo, "commit", "--quiet", "--message", `value ${value}`);
      revisions.push((await programs.git(repo, "rev-parse", "HEAD")).trim());
    }
    await programs.sublet("server", ["init", repo, "--no-measure"]);
    return revisions;
  }

  async token(name: string, ...more: string[]): Promise<string> {
    return (await this.programs.sublet("server", ["token", "create", name, ...more])).trim();
  }

  /** Configure `name`'s home, and start its worker. */
  async worker(
    name: string,
    options: {
      token?: string;
      server?: string;
      args?: string[];
      env?: Record<string, string>;
    } = {},
  ): Promise<string> {
    const token = options.token ?? await this.token(name);
    await this.configureWorker(name);
    await this.startWorker(name, token, options);
    return token;
  }

  async configureWorker(name: string): Promise<void> {
    await this.programs.write(
      `${name}/config.toml`,
      `[plugins.cas]\nprovider = "http"\nurl = "${this.cas}"\n`,
    );
  }

  async startWorker(
    name: string,
    token: string,
    options: { server?: string; args?: string[]; env?: Record<string, string> } = {},
  ): Promise<void> {
    const argv = [
      "worker",
      "--server",
      options.server ?? this.server,
      "--pool",
      "lab",
      ...options.args ?? [],
    ];
    await this.programs.background(name, name, argv, /^worker (\S+) in pool lab: connected to/m, {
      SUBLET_HTTPS_TOKEN: token,
      ...options.env,
    });
  }

  /** Queue evaluations without waiting for them. */
  async queue(...revisions: string[]): Promise<EvaluationResult[]> {
    const text = await this.programs.sublet("server", [
      "eval",
      ...revisions,
      "--campaign",
      "steps",
      "--no-wait",
      "--json",
    ]);
    return lines(text);
  }

  /** Wait for the evaluation of `job` to end. */
  async ended(queued: EvaluationResult, seconds = 60): Promise<EvaluationResult> {
    return await until(`evaluation ${queued.evaluation} ends`, async () => {
      const now = await this.evaluation(queued).catch(() => null);
      return now !== null && !["waiting", "running"].includes(now.state) ? now : null;
    }, seconds);
  }

  async evaluation(queued: EvaluationResult): Promise<EvaluationResult> {
    return await this.api("GET", `/v1/evaluations/${queued.evaluation}`);
  }

  /** One call of the HTTP API, over the home's socket. */
  async api<T>(method: string, path: string, body?: unknown): Promise<T> {
    using client = await ApiClient.open({ SUBLET_HOME: `${this.root}/server` });
    return await client.call<T>(method, path, body);
  }

  async job(id: number): Promise<JobResult> {
    return JSON.parse(await this.programs.sublet("server", ["job", "show", String(id), "--json"]));
  }

  /** Let the evaluate scripts go on. */
  async open(): Promise<void> {
    await Deno.writeTextFile(`${this.root}/gate`, "");
  }

  /** What the evaluate scripts recorded: one line a start. */
  async runs(): Promise<string[]> {
    const text = await Deno.readTextFile(`${this.root}/runs`).catch(() => "");
    return text.split("\n").filter((line) => line !== "");
  }

  async runsReach(count: number): Promise<void> {
    await until(`${count} runs started`, async () => (await this.runs()).length >= count);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.open();
    await this.programs[Symbol.asyncDispose]();
  }
}

function lines<T>(text: string): T[] {
  return text.trim().split("\n").filter((line) => line !== "").map((line) => JSON.parse(line) as T);
}
