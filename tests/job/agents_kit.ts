/** @module Agents over a real database, engine, store and git repository, with a worker that is driven by hand. */

import assert from "node:assert/strict";
import { type Cas, type Cid, parseCid } from "../../lib/cas/mod.ts";
import { type Clock, nullLog, systemClock, systemIds } from "../../lib/home/mod.ts";
import {
  type Agent,
  type AgentJob,
  agentJob,
  type AgentRequest,
  type Agents,
  type AgentTables,
  type Campaign,
} from "../../lib/job/mod.ts";
import { LeaseEngine, type WireGrant, type WorkerCaller } from "../../lib/lease/mod.ts";
import { GitVcs } from "../../lib/vcs/mod.ts";
import { run } from "../kit/mod.ts";
import { Kit, PORTS, Repo, sure, TOML } from "./campaign_kit.ts";

export { sure, TOML };

const encoder = new TextEncoder();
const NEVER = new AbortController().signal;

const SAMPLE = {
  at: "2026-01-01T00:00:00Z",
  cpus: 4,
  load1: 0.5,
  memory_available: 8e9,
  disk_free: 1e11,
};

/** A worker, a call at a time. */
export class AgentWorker {
  readonly caller: WorkerCaller;

  constructor(readonly kit: AgentKit, readonly name: string, incarnation: string | null = null) {
    this.caller = { name, pool: null, incarnation, succeeds: null, local: false };
  }

  async register(runners: readonly string[] = ["process", "session"]): Promise<void> {
    await this.kit.engine.register(this.caller, {
      version: "1",
      pool: "lab",
      runners: [...runners],
      labels: [],
      sample: SAMPLE,
      casProbe: await this.kit.put(`probe of ${this.name}`),
      once: false,
    });
  }

  async acquire(): Promise<WireGrant> {
    const grant = await this.kit.engine.acquire(this.caller, crypto.randomUUID(), SAMPLE);
    assert.ok(typeof grant === "object", `no lease: ${grant}`);
    return grant;
  }

  async start(): Promise<WireGrant> {
    const grant = await this.acquire();
    await this.started(grant.lease);
    return grant;
  }

  async started(lease: number): Promise<void> {
    const handle = { runtime: "subprocess", data: { pid: 1 } };
    await this.kit.engine.started(this.caller, lease, handle, null);
  }

  async report(lease: number, report: object, request: string = crypto.randomUUID()) {
    return await this.kit.engine.report(this.caller, lease, request, report);
  }

  /** The prompts that wait for it. */
  async prompts(): Promise<{ id: number; prompt: { id: number; text: string } }[]> {
    const found = await this.kit.engine.messages(this.caller, 0, 0);
    return found.flatMap((each) => each.kind === "prompt" ? [each] : []);
  }

  async saved(lease: number, stream: string, offset: number, text: string, more = {}) {
    const part = {
      lease,
      stream,
      offset,
      bytes: encoder.encode(text).length,
      blob: await this.kit.put(text),
      usage: null,
      session: null,
      ...more,
    };
    await this.kit.kit.streams.check(part);
    await this.kit.engine.holding(this.caller, lease, async (tx, job) => {
      await this.kit.kit.streams.append(tx, job.id, part);
      await this.kit.agents.saved(tx, job.key, part);
    });
  }
}

/** A report of a process that ended well. */
export function finished(more: object = {}): object {
  return {
    kind: "agent_finished",
    process: { status: "exited", seconds: 3, exit_code: 0, error: null },
    session_id: null,
    ...more,
  };
}

/** What a test of agents needs. */
export class AgentKit implements AsyncDisposable {
  private constructor(
    readonly kit: Kit,
    readonly engine: LeaseEngine,
    readonly campaign: Campaign,
  ) {}

  static async make(
    toml = TOML,
    tables: AgentTables = { harness: {}, mcp: {} },
    clock: Clock = systemClock,
  ): Promise<AgentKit> {
    const kit = await Kit.make(toml, clock, tables);
    const engine = new LeaseEngine({
      db: kit.db,
      cas: kit.cas,
      clock,
      ids: systemIds,
      log: nullLog,
      kinds: [kit.evaluations.kind, kit.agents.kind],
      timing: { renew: 10, grace: 50, toleration: 300 },
      pools: { lab: { evaluations: 3, agents: 8 } },
    });
    await engine.start();
    kit.evaluations.bind(engine);
    kit.agents.bind(engine);
    const campaign = await kit.evaluations.register(kit.repo.path);
    return new AgentKit(kit, engine, campaign);
  }

  get agents(): Agents {
    return this.kit.agents;
  }

  get cas(): Cas {
    return this.kit.cas;
  }

  /** Where the campaign's shared workspace is. */
  get workspace(): string {
    return `${this.kit.dir.path}/projects/${this.campaign.id}/workspace`;
  }

  async put(text: string): Promise<Cid> {
    return await this.cas.put(encoder.encode(text));
  }

  async text(cid: Cid): Promise<string> {
    return new TextDecoder().decode(sure(await this.cas.get(cid)));
  }

  async ask(more: Partial<AgentRequest> = {}): Promise<Agent> {
    return await this.agents.request(this.campaign, { prompt: "do it", ...more });
  }

  /** The job of an agent, as a worker reads it. */
  async job(grant: WireGrant): Promise<AgentJob> {
    return agentJob.parse(JSON.parse(await this.text(parseCid(grant.job_cid))));
  }

  async worker(name = "w1", runners?: readonly string[]): Promise<AgentWorker> {
    const worker = new AgentWorker(this, name);
    await worker.register(runners);
    return worker;
  }

  /** The agent once it ended. */
  async ended(id: number): Promise<Agent> {
    return await this.agents.waitFor(id, 20_000, NEVER);
  }

  /** Commits on top of `base`, made elsewhere, as a transfer in the store. */
  async work(base: string, files: Record<string, string>, subjects = ["work"]) {
    const path = `${this.kit.dir.path}/elsewhere-${crypto.randomUUID()}`;
    await run(["git", "clone", "-q", this.kit.repo.path, path], { cwd: this.kit.dir.path });
    const repo = new Repo(path);
    await repo.git("checkout", "-q", "--detach", base);
    let head = base;
    for (const subject of subjects) {
      for (const [file, text] of Object.entries(files)) {
        await repo.write(file, `${text} ${subject}`);
      }
      head = await repo.commit(subject);
    }
    const opened = await new GitVcs(PORTS).open(path);
    const { blob } = sure(await opened.send(this.cas, [head], [base]));
    return { blob, head };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.engine.close();
    await this.kit[Symbol.asyncDispose]();
  }
}
