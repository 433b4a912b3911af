/** @module The agents of a server: asking for one, talking to it, and what came of it. */

import type { Cas, Seen } from "../cas/mod.ts";
import { type Clock, type Ids, type Log, SubletError } from "../home/mod.ts";
import type { Db, Row, Tx } from "../store/mod.ts";
import type { Vcs } from "../vcs/mod.ts";
import { AgentKind } from "./agent_kind.ts";
import { AgentRecovery, type LateReport, type RecoveryQueue } from "./agent_late.ts";
import { Lander } from "./agent_landing.ts";
import { AgentPrompts, type Prompted, type PromptQueue } from "./agent_prompts.ts";
import { agentRows } from "./agent_queue.ts";
import {
  AgentPreparer,
  type AgentRequest,
  type AgentTables,
  type PreparedAgent,
  type Resumed,
} from "./agent_request.ts";
import { AgentSaid } from "./agent_said.ts";
import {
  type Agent,
  agentEnded,
  type AgentFilter,
  agentOfJob,
  listAgents,
  readAgent,
  runningAgents,
} from "./agent_store.ts";
import { type AgentPrompt, promptsOf, readPrompt } from "./agent_store_prompts.ts";
import {
  agentRequestedBefore,
  insertAgent,
  type UnsubmittedAgent,
} from "./agent_store_requests.ts";
import { noteSession } from "./agent_store_sessions.ts";
import type { Campaign } from "./campaign_store.ts";
import { Waiters, waitUntil } from "./evaluation_waiters.ts";
import { type Queue, Submitter } from "./job_queue.ts";
import type { SavedPart } from "./stream_shapes.ts";
import type { Streams } from "./streams.ts";
import { Workspaces } from "./workspace.ts";

/** Versions of other work that an agent may read, at most. */
const HISTORY = 200;

/** What agents are made of. */
export interface AgentsDeps {
  readonly db: Db;
  readonly cas: Cas;
  readonly vcs: Vcs;
  readonly clock: Clock;
  readonly ids: Ids;
  readonly log: Log;
  /** The server's home: shared workspaces are beneath it. */
  readonly home: string;
  /** Harnesses and MCP servers of the home's config. */
  readonly tables: AgentTables;
  readonly streams: Streams;
  /** What is known of linked inputs, which need not be read then. Default: what this process read. */
  readonly seen?: Seen;
}

/** The agents of a server. Call `bind`, then `resume`, before anything else. */
export class Agents {
  /** Agents as a kind of the lease engine's jobs. */
  readonly kind: AgentKind;
  readonly #deps: AgentsDeps;
  readonly #waiters = new Waiters();
  readonly #preparer: AgentPreparer;
  readonly #submitter: Submitter<UnsubmittedAgent>;
  readonly #lander: Lander;
  readonly #prompts: AgentPrompts;
  readonly #recovery: AgentRecovery;
  readonly said: AgentSaid;

  constructor(deps: AgentsDeps) {
    this.#deps = deps;
    const workspaces = new Workspaces(deps.home, deps.cas);
    this.said = new AgentSaid(deps.db, deps.streams);
    this.#prompts = new AgentPrompts({
      db: deps.db,
      cas: deps.cas,
      clock: deps.clock,
      streams: deps.streams,
      resume: (campaign, request, resumed) => this.#request(campaign, request, resumed),
    });
    this.kind = new AgentKind({
      clock: deps.clock,
      changed: (id, job, landing) => {
        if (landing) this.#lander.land(id);
        this.#changed(id, job);
      },
      send: (tx, job, prompt) => this.#prompts.send(tx, job, prompt),
    });
    this.#recovery = new AgentRecovery({ ...deps, blobs: (report) => this.kind.blobs(report) });
    this.#preparer = new AgentPreparer({
      ...deps,
      workspaces,
      history: (campaign) => deps.db.read((tx) => historyOf(tx, campaign)),
    });
    this.#submitter = new Submitter(deps, agentRows, "agents");
    this.#lander = new Lander({
      ...deps,
      workspaces,
      ended: (id, job) => this.#changed(id, job),
    });
  }

  /** Submit jobs, send prompts and tell of recoveries through this. */
  bind(queue: Queue & PromptQueue & RecoveryQueue): void {
    this.#recovery.bind(queue);
    this.#submitter.bind(queue);
    this.#prompts.bind(queue);
  }

  /** Take up what a server that died left: agents without a job, and work that has not landed. */
  async resume(): Promise<void> {
    await this.#submitter.resume();
    await this.#lander.resume();
  }

  /** End what runs in the background; to be called last. */
  async idle(): Promise<void> {
    this.#submitter.close();
    await this.#lander.close();
    await this.#deps.streams.idle();
  }

  /**
   * Ask for an agent: a row, and a job. A request that was made before under its `dedup` key gets the agent that that one
   * made. Throws `conflict` when that asked for something else.
   */
  async request(campaign: Campaign, request: AgentRequest): Promise<Agent> {
    return await this.agent(await this.#request(campaign, request, null));
  }

  async #request(
    campaign: Campaign,
    request: AgentRequest,
    resumed: Resumed | null,
  ): Promise<number> {
    const prepared = await this.#preparer.prepare(campaign, request, resumed);
    const { id, rows } = await this.#deps.db.write((tx) =>
      this.#insert(tx, campaign, request, prepared, resumed)
    );
    await this.#submitter.submit(rows);
    return id;
  }

  async #insert(
    tx: Tx,
    campaign: Campaign,
    request: AgentRequest,
    prepared: PreparedAgent,
    resumed: Resumed | null,
  ): Promise<{ id: number; rows: UnsubmittedAgent[] }> {
    const { harness, version } = prepared;
    const { prompt, dedup } = request;
    if (dedup !== undefined) {
      const asked = { prompt, harness: harness.name, base: version.revision };
      const id = await agentRequestedBefore(tx, campaign.id, dedup, asked);
      if (id !== null) return { id, rows: [] };
    }
    const row = await insertAgent(tx, {
      campaign: campaign.id,
      role: prepared.role,
      harness: harness.name,
      model: prepared.model,
      effort: prepared.effort,
      prompt,
      base: version.revision,
      subject: version.subject,
      workspace: prepared.workspace,
      timeout: prepared.timeout,
      sessionId: prepared.sessionId,
      resumes: resumed?.agent ?? null,
      resumable: harness.resume.length > 0,
      format: harness.usage?.tally ?? null,
      requires: prepared.requires,
      secrets: request.secrets ?? {},
      priority: request.priority ?? 0,
      dedup: dedup ?? null,
      job: (id) => prepared.job(id),
    }, this.#deps.clock.now());
    return { id: row.id, rows: [row] };
  }

  /** Agent `id`, or `not_found`. */
  async agent(id: number): Promise<Agent> {
    const found = await this.#deps.db.read((tx) => readAgent(tx, id));
    if (found !== null) return found;
    throw new SubletError("not_found", `there is no agent ${id}`);
  }

  /** Agent `id` once it ended, or as it is after `ms` milliseconds or when `signal` aborts. */
  async waitFor(id: number, ms: number, signal: AbortSignal): Promise<Agent> {
    return await waitUntil(
      {
        clock: this.#deps.clock,
        subscribe: (wake) => this.#waiters.subscribe(id, wake),
        read: () => this.agent(id),
        done: ({ state }) => agentEnded(state),
      },
      ms,
      signal,
    );
  }

  /** The agent of a job, or null. */
  async ofJob(job: number): Promise<Agent | null> {
    return await this.#deps.db.read((tx) => agentOfJob(tx, job));
  }

  /** Agents, from new to old. */
  async list(filter: AgentFilter): Promise<Agent[]> {
    return await this.#deps.db.read((tx) => listAgents(tx, filter));
  }

  /** At most `limit` agents that run now. */
  async running(limit: number): Promise<Agent[]> {
    return await this.#deps.db.read((tx) => runningAgents(tx, limit));
  }

  /** The prompts of agent `id`, oldest first. */
  async prompts(id: number): Promise<AgentPrompt[]> {
    return await this.#deps.db.read((tx) => promptsOf(tx, id));
  }

  /**
   * Tell the agent of `job` something: it is sent to where it runs, or once it runs; one that ended is gone on with, by a
   * new job. Throws `not_found`, and `conflict` for one that takes no prompts.
   */
  async prompt(job: number, text: string, actor: string): Promise<Prompted> {
    const found = await this.ofJob(job);
    if (found === null) {
      throw new SubletError(
        "not_found",
        `job ${job} is no agent's: see 'sublet job list --kind agent'`,
      );
    }
    return await this.#prompts.prompt(found.agent, text, actor);
  }

  /**
   * Take what the last worker of a lost or cancelled agent handed in too late, one of `late`: its job is no longer dead.
   * Throws `not_found` when it handed in nothing, `conflict` when the agent was not lost, `missing_blobs` when the store
   * lacks some of it.
   */
  async recover(job: number, late: readonly LateReport[]): Promise<Agent> {
    const id = await this.#recovery.take(job, late);
    this.#lander.land(id);
    return await this.agent(id);
  }

  /** Prompt `prompt` once its worker answered it, or as it is after `ms` milliseconds or when `signal` aborts. */
  async waitForPrompt(prompt: number, ms: number, signal: AbortSignal): Promise<AgentPrompt> {
    const read = async () => {
      const found = await this.#deps.db.read((tx) => readPrompt(tx, prompt));
      if (found !== null) return found;
      throw new SubletError("not_found", `there is no prompt ${prompt}`);
    };
    const { agent } = await read();
    return await waitUntil(
      {
        clock: this.#deps.clock,
        subscribe: (wake) => this.#waiters.subscribe(agent, wake),
        read,
        done: ({ state }) => state !== "waiting" && state !== "sent",
      },
      ms,
      signal,
    );
  }

  /** A part of what an agent's job writes came, in the transaction that stores it. */
  async saved(tx: Tx, key: string, { session, usage }: SavedPart): Promise<void> {
    if (session === null && usage === null) return;
    await noteSession(tx, Number(key), session, usage);
  }

  #changed(id: number, job: number | null): void {
    this.#waiters.wake(id);
    if (job !== null) this.#deps.streams.wake(job);
  }
}

/** Versions of a campaign that an agent may read: candidates, and what other agents left. */
async function historyOf(tx: Tx, campaign: number): Promise<string[]> {
  const candidates = await tx.all<Row & { revision: string }>(
    "SELECT revision FROM candidates WHERE campaign = ? ORDER BY id DESC LIMIT ?",
    [campaign, HISTORY],
  );
  const agents = (await listAgents(tx, { campaign, limit: HISTORY }))
    .flatMap(({ landed }) => landed?.head ?? []);
  return [...new Set([...candidates.map(({ revision }) => revision), ...agents])].slice(0, HISTORY);
}
