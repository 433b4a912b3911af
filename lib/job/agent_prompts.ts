/** @module Telling an agent something: while it waits, while it runs, and after it ended. */

import { type Clock, SubletError } from "../home/mod.ts";
import { type Cas, parseCid } from "../cas/mod.ts";
import type { Db, Tx } from "../store/mod.ts";
import { type AgentRequest, cannotResume, type Resumed } from "./agent_request.ts";
import { type Agent, agentEnded, readAgent } from "./agent_store.ts";
import { type AgentPrompt, insertPrompt, readPrompt } from "./agent_store_prompts.ts";
import { readResumable, type ResumableAgent } from "./agent_store_sessions.ts";
import { type Campaign, findCampaign } from "./campaign_store.ts";
import { SESSION_STREAM } from "./stream_shapes.ts";
import type { Streams } from "./streams.ts";

/** The most characters of a prompt. */
export const MAX_PROMPT = 256 * 1024;

/** A session's id as it may stand in a command line: a worker says it, and another worker's harness gets it. */
const SESSION_ID = /^[A-Za-z0-9][A-Za-z0-9._:-]{0,199}$/;

/** Sends prompts to workers, in the shape of lib/lease. */
export interface PromptQueue {
  /** Send the text to what `job` runs, in this transaction; the message's id. Throws `conflict` when it does not run. */
  prompt(job: number, id: number, text: string, tx: Tx): Promise<number>;
}

/** What became of a prompt. */
export interface Prompted {
  /** The agent that gets it: another one when it goes on with the session of one that ended. */
  readonly agent: Agent;
  /** Null: it is the task of an agent that goes on. */
  readonly prompt: AgentPrompt | null;
}

/** What prompts are made of. */
export interface AgentPromptsDeps {
  readonly db: Db;
  readonly cas: Cas;
  readonly clock: Clock;
  readonly streams: Streams;
  /** Ask for an agent that goes on with a session; its id. */
  readonly resume: (
    campaign: Campaign,
    request: AgentRequest,
    resumed: Resumed,
  ) => Promise<number>;
}

/** The prompts of a server's agents. */
export class AgentPrompts {
  readonly #deps: AgentPromptsDeps;
  #queue: PromptQueue | null = null;

  constructor(deps: AgentPromptsDeps) {
    this.#deps = deps;
  }

  bind(queue: PromptQueue): void {
    this.#queue = queue;
  }

  /** Send a prompt to the worker of a running job. */
  async send(tx: Tx, job: number, { id, text }: { id: number; text: string }): Promise<void> {
    if (this.#queue === null) throw new SubletError("internal", "agents are bound to no queue");
    await this.#queue.prompt(job, id, text, tx);
  }

  /** Tell agent `id` something. */
  async prompt(id: number, text: string, actor: string): Promise<Prompted> {
    if (text.trim() === "" || text.length > MAX_PROMPT || text.includes("\0")) {
      throw new SubletError(
        "invalid_request",
        `a prompt is a text of at most ${MAX_PROMPT} characters, and is not empty`,
      );
    }
    const { db } = this.#deps;
    const sent = await db.write((tx) => this.#tell(tx, id, text, actor));
    if (sent === null) {
      const next = await this.#resume(id, text);
      return { agent: await db.read((tx) => known(tx, next)), prompt: null };
    }
    return await db.read(async (tx) => ({
      agent: await known(tx, id),
      prompt: await readPrompt(tx, sent),
    }));
  }

  /** The id of the prompt that is stored, or null when the agent has ended. */
  async #tell(tx: Tx, id: number, text: string, actor: string): Promise<number | null> {
    const agent = await known(tx, id);
    if (agentEnded(agent.state)) return null;
    if (agent.state === "landing") {
      throw new SubletError(
        "conflict",
        `agent ${id} has ended, and its work is being put in place: send the prompt in a moment`,
      );
    }
    const now = this.#deps.clock.now();
    const runs = agent.state === "running" && agent.job !== null;
    const prompt = await insertPrompt(
      tx,
      { agent: id, text, actor },
      runs ? "sent" : "waiting",
      now,
    );
    if (runs && agent.job !== null) await this.send(tx, agent.job, { id: prompt, text });
    return prompt;
  }

  /** Make an agent that goes on with the session of agent `id`, which ended; its id. */
  async #resume(id: number, text: string): Promise<number> {
    const { db } = this.#deps;
    const found = await db.read(async (tx) => {
      const agent = await readResumable(tx, id);
      return agent === null ? null : { agent, campaign: await findCampaign(tx, agent.campaign) };
    });
    if (found === null || found.campaign === null) {
      throw new SubletError("not_found", `agent ${id}, or its campaign, is not known any more`);
    }
    const { agent, campaign } = found;
    if (!agent.resumable) throw cannotResume(agent.harness);
    const resumed = { agent: id, session: await this.#session(agent) };
    return await this.#deps.resume(campaign, requestOf(agent, campaign, text), resumed);
  }

  async #session(agent: ResumableAgent): Promise<Resumed["session"]> {
    const { id, session_id: sessionId, session, lease, job } = agent;
    const file = session?.file ??
      (job === null || lease === null
        ? null
        : await this.#deps.streams.assemble(job, lease, SESSION_STREAM));
    if (sessionId !== null && !SESSION_ID.test(sessionId)) {
      throw new SubletError(
        "conflict",
        `the session of agent ${id} has a name that no command line should get: start another agent`,
      );
    }
    const blob = file === null ? null : parseCid(file);
    if (
      sessionId !== null && session !== null && blob !== null && await this.#deps.cas.has(blob)
    ) {
      return {
        session_id: sessionId,
        file: blob,
        name: session.name,
        cwd: session.cwd,
      };
    }
    const start = agent.landed?.head ?? agent.base;
    throw new SubletError(
      "conflict",
      `the session of agent ${id} did not come back, or is kept no more, so nothing can go on with it: start another ` +
        `from its work, with 'sublet agent PROMPT --base ${start.slice(0, 12)}'`,
    );
  }
}

/** What goes on as the agent did, from what it left. */
function requestOf(agent: ResumableAgent, campaign: Campaign, text: string): AgentRequest {
  const { pool, labels } = JSON.parse(agent.requires);
  const isRole = Object.hasOwn(campaign.config.roles, agent.role);
  return {
    prompt: text,
    base: agent.landed?.head ?? agent.base,
    harness: agent.harness,
    timeout: agent.timeout,
    priority: agent.priority,
    secrets: JSON.parse(agent.secrets),
    ...(isRole ? { role: agent.role } : {}),
    ...(agent.model === null ? {} : { model: agent.model }),
    ...(agent.effort === null ? {} : { effort: agent.effort }),
    ...(pool === undefined ? {} : { pool }),
    ...(labels === undefined ? {} : { labels }),
  };
}

async function known(tx: Tx, id: number): Promise<Agent> {
  const found = await readAgent(tx, id);
  if (found !== null) return found;
  throw new SubletError("not_found", `there is no agent ${id}`);
}
