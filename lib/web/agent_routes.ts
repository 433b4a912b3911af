/** @module The API's routes of agents. */

import * as z from "zod";
import { type Agents, type Evaluations, MAX_PROMPT, MAX_TIMEOUT } from "../job/mod.ts";
import {
  agent,
  agentList,
  agentPrompt,
  agentPrompts,
  agentState,
  prompted,
} from "./agent_schemas.ts";
import { campaignRef } from "./campaign_routes.ts";
import { MAX_WAIT, ofCampaign, pickDefined, refOf, revisionName, waitQuery } from "./requests.ts";
import { name, type Route, route } from "./route.ts";
import { DEFAULT_LIMIT, idParams, idText, nextOf, page } from "./schemas.ts";

const shortText = z.string().min(1).max(200);
const variable = z.string().max(256).regex(/^[A-Za-z_][A-Za-z0-9_]*$/, "must be a variable's name");

const request = name(
  "AgentRequest",
  z.object({
    ...ofCampaign,
    prompt: z.string().min(1).max(MAX_PROMPT).describe("What is to be done."),
    base: revisionName.optional().describe("The revision to start from. Default: the head."),
    role: shortText.optional().describe("A role of the campaign's file. Default: none."),
    harness: shortText.optional().describe("Default: the role's or the campaign's first."),
    model: shortText.optional(),
    effort: shortText.optional(),
    command: z.array(z.string().max(100_000)).min(1).max(1000).optional()
      .describe("What the harness `command` runs; `{brief}` is the file with the prompt."),
    timeout: z.number().positive().max(MAX_TIMEOUT).optional()
      .describe("Seconds that it may run. Default: the role's, or an hour."),
    secrets: z.record(variable, variable).optional()
      .describe("Variables of its environment that hold a secret: the secret's name."),
    pool: z.string().min(1).max(64).optional().describe("Only on workers of this pool."),
    labels: z.array(shortText).max(20).optional().describe("Only on workers with these labels."),
    priority: z.int().min(-1_000_000).max(1_000_000).optional()
      .describe("Higher goes first. Default 0."),
    dedup: shortText.optional()
      .describe("Names the request in its campaign: asked again, it answers what the first made."),
  }),
);

const prompt = name(
  "PromptRequest",
  z.object({ text: z.string().min(1).max(MAX_PROMPT) }),
);

const listQuery = z.object({
  ...page,
  campaign: z.string().min(1).max(64).optional().describe("A campaign's id or name."),
  state: agentState.optional(),
});

/** What routes of agents are made of. */
export interface AgentRouteDeps {
  readonly agents: Agents;
  readonly evaluations: Evaluations;
  /** Throws `not_found` for a pool that jobs may not ask for. */
  readonly checkPool: (pool: string) => void;
  /** Aborts when the server stops. */
  readonly closing: AbortSignal;
}

/** The routes of agents. */
export function agentRoutes(deps: AgentRouteDeps): Route[] {
  return [...requestRoutes(deps), ...promptRoutes(deps)];
}

function requestRoutes({ agents, evaluations, checkPool, closing }: AgentRouteDeps): Route[] {
  return [
    route({
      method: "post",
      path: "/v1/agents",
      access: "act",
      operation: "requestAgent",
      summary: "Queue an agent: a coding agent on a checkout, whose work comes back.",
      body: request,
      answer: agent,
      status: 201,
    }, async ({ body }) => {
      if (body.pool !== undefined) checkPool(body.pool);
      const campaign = await evaluations.campaign(refOf(body));
      const { campaign: _, path: __, prompt, ...options } = body;
      return await agents.request(campaign, { prompt, ...pickDefined(options) });
    }),
    route({
      method: "get",
      path: "/v1/agents",
      access: "read",
      operation: "listAgents",
      summary: "Agents, newest first.",
      query: listQuery,
      answer: agentList,
    }, async ({ query: { campaign, state, after, limit = DEFAULT_LIMIT } }) => {
      const of = campaign === undefined ? null : await evaluations.campaign(campaignRef(campaign));
      const items = await agents.list({
        limit,
        ...(of === null ? {} : { campaign: of.id }),
        ...(state === undefined ? {} : { state }),
        ...(after === undefined ? {} : { before: after }),
      });
      return { agents: items, next: nextOf(items, limit, (item) => item.agent) };
    }),
    route({
      method: "get",
      path: "/v1/agents/{id}",
      access: "read",
      operation: "showAgent",
      summary:
        "One agent; with `wait`, once it ended and its work is in place, or the time is over.",
      params: idParams,
      query: waitQuery,
      answer: agent,
    }, async ({ params, query, signal }) => {
      const gone = AbortSignal.any([signal, closing]);
      return await agents.waitFor(params.id, (query.wait ?? 0) * 1000, gone);
    }),
  ];
}

function promptRoutes({ agents, closing }: AgentRouteDeps): Route[] {
  return [
    route({
      method: "get",
      path: "/v1/agents/{id}/prompts",
      access: "read",
      operation: "listPrompts",
      summary: "What was said to an agent after its task, oldest first.",
      params: idParams,
      answer: agentPrompts,
    }, async ({ params: { id } }) => {
      await agents.agent(id);
      return { prompts: await agents.prompts(id) };
    }),
    route({
      method: "get",
      path: "/v1/prompts/{id}",
      access: "read",
      operation: "showPrompt",
      summary: `One prompt; with \`wait\` (at most ${MAX_WAIT}), once its worker answered it.`,
      params: z.object({ id: idText.describe("The prompt's number.") }),
      query: waitQuery,
      answer: agentPrompt,
    }, async ({ params, query, signal }) => {
      const gone = AbortSignal.any([signal, closing]);
      return await agents.waitForPrompt(params.id, (query.wait ?? 0) * 1000, gone);
    }),
    route(
      {
        method: "post",
        path: "/v1/jobs/{id}/prompts",
        access: "act",
        operation: "promptJob",
        summary:
          "Tell the agent of a job something: at its next turn, or, when it ended, by a new job that goes on with its session.",
        params: idParams,
        body: prompt,
        answer: prompted,
        status: 201,
      },
      async ({ params: { id }, body, caller }) =>
        await agents.prompt(id, body.text, caller?.name ?? "somebody"),
    ),
  ];
}
