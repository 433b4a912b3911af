/** @module A server, a store and workers as processes, and agents on them whose harnesses are stubs. */

import { fileURLToPath } from "node:url";
import { until } from "../kit/mod.ts";
import { Cluster, PATIENT, TIMING } from "./cluster.ts";

const STUBS = fileURLToPath(new URL("../fixtures/harnesses", import.meta.url));

/** What `sublet agent --json` and `/v1/agents` say, as far as the tests read it. */
export interface AgentResult {
  readonly job: number;
  readonly agent: number;
  readonly state: string;
  readonly worker: string | null;
  readonly lease: number | null;
  readonly session_id: string | null;
  readonly usage: { readonly total: number; readonly turns: number } | null;
  readonly session_usage: { readonly total: number; readonly turns: number } | null;
  readonly exit_code: number | null;
  readonly timed_out: boolean;
  readonly error: string | null;
  readonly files: Readonly<Record<string, string>>;
  readonly landed: {
    readonly head: string | null;
    readonly ref: string | null;
    readonly commits: number;
    readonly workspace: { readonly beside: Readonly<Record<string, string>> };
  } | null;
}

/** A cluster whose workers run agents, each with a home of the person's of its own. */
export class AgentCluster implements AsyncDisposable {
  /** Whose agents {@linkcode queue} asks for. */
  campaign = "steps";

  private constructor(readonly cluster: Cluster) {}

  static async make(
    options: { serveAgents?: number; agents?: number; patient?: boolean; binary?: string } = {},
  ): Promise<AgentCluster> {
    const cluster = await Cluster.make({
      agents: options.agents ?? 2,
      serveAgents: options.serveAgents ?? 0,
      timing: options.patient === false ? TIMING : PATIENT,
      binary: options.binary ?? null,
    });
    const self = new AgentCluster(cluster);
    await Deno.mkdir(`${cluster.root}/user`);
    await cluster.serve(self.env);
    await cluster.serveCas();
    await cluster.campaign([1]);
    return self;
  }

  /** What workers find of their machine. */
  get env(): Record<string, string> {
    return {
      PATH: `${STUBS}:${Deno.env.get("PATH") ?? "/usr/bin:/bin"}`,
      HOME: `${this.cluster.root}/user`,
    };
  }

  get root(): string {
    return this.cluster.root;
  }

  async worker(name: string): Promise<string> {
    return await this.cluster.worker(name, { env: this.env });
  }

  async restart(name: string, token: string): Promise<void> {
    await this.cluster.startWorker(name, token, { env: this.env });
  }

  /** Queue an agent of the stub `harness` that runs `script`. */
  async queue(script: string, harness = "claude", ...more: string[]): Promise<AgentResult> {
    const prompt = script.split("\n").map((line) => `$ ${line}`).join("\n");
    const argv = [
      "agent",
      prompt,
      "--campaign",
      this.campaign,
      "--harness",
      harness,
      "--no-wait",
      "--json",
    ];
    return JSON.parse(await this.cluster.programs.sublet("server", [...argv, ...more]));
  }

  /** Queue an agent that says that it is up, and waits for its gate; `after` follows. */
  async waiting(
    before: string,
    after = "true",
    harness = "claude",
    ...more: string[]
  ): Promise<AgentResult> {
    const queued = await this.queue(
      `${before}; : >${this.root}/up; while [ ! -e ${this.root}/pass ]; do sleep 0.02; done; ${after}`,
      harness,
      ...more,
    );
    await until("the agent is up", () => exists(`${this.root}/up`), 60);
    await this.state(queued, "running");
    return queued;
  }

  /** Let it go on. */
  async open(): Promise<void> {
    await Deno.writeTextFile(`${this.root}/pass`, "");
  }

  async agent(queued: AgentResult): Promise<AgentResult> {
    return await this.cluster.api("GET", `/v1/agents/${queued.agent}`);
  }

  async state(queued: AgentResult, state: string): Promise<AgentResult> {
    return await until(`agent ${queued.agent} is ${state}`, async () => {
      const now = await this.agent(queued).catch(() => null);
      return now?.state === state ? now : null;
    }, 60);
  }

  async ended(queued: AgentResult): Promise<AgentResult> {
    return await until(`agent ${queued.agent} ends`, async () => {
      const now = await this.agent(queued).catch(() => null);
      const going = ["waiting", "running", "landing"];
      return now === null || going.includes(now.state) ? null : now;
    }, 90);
  }

  /** The text of `path` in what an agent left. */
  async show({ landed }: AgentResult, path: string): Promise<string> {
    return await this.cluster.programs.git(`${this.root}/repo`, "show", `${landed?.ref}:${path}`);
  }

  /** Run a command of `sublet` in the server's home. */
  async sublet(...argv: string[]) {
    return await this.cluster.programs.finish("server", argv);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.open();
    await this.cluster[Symbol.asyncDispose]();
  }
}

export async function exists(path: string): Promise<boolean> {
  return await Deno.lstat(path).then(() => true, () => false);
}
