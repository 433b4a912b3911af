/** @module The API's routes of evaluations. */

import * as z from "zod";
import { SubletError } from "../home/mod.ts";
import {
  type CampaignRef,
  type EvaluationRequest,
  type Evaluations,
  MAX_REPEATS,
  MAX_REVISIONS,
} from "../job/mod.ts";
import { campaignRef } from "./campaign_routes.ts";
import { name, type Route, route } from "./route.ts";
import {
  DEFAULT_LIMIT,
  evaluation,
  evaluationState,
  idParams,
  next,
  nextOf,
  page,
} from "./schemas.ts";

/** The longest `wait`, seconds. */
const MAX_WAIT = 25;

const revisionName = z.string().min(1).max(1024);

const request = name(
  "EvaluationRequest",
  z.object({
    campaign: z.union([z.string().min(1).max(64), z.int().min(1)]).optional()
      .describe("The campaign's name or id. Or name a `path`."),
    path: z.string().min(1).max(4096).startsWith("/", "must be an absolute path").optional()
      .describe("A directory in the campaign's checkout, on the server."),
    revisions: z.array(revisionName).min(1).max(MAX_REVISIONS)
      .describe("Revisions, branches or tags: one evaluation each."),
    repeats: z.int().min(1).max(MAX_REPEATS).optional()
      .describe("Runs of the command. Default: 1, or beside a bar what the metrics ask for."),
    against: revisionName.optional().describe("Run this revision beside each, and compare."),
    pool: z.string().min(1).max(64).optional().describe("Only on workers of this pool."),
    priority: z.int().min(-1_000_000).max(1_000_000).optional()
      .describe("Higher goes first. Default 0."),
    dedup: z.string().min(1).max(200).optional()
      .describe("Names the request in its campaign: asked again, it answers what the first made."),
  }),
);

const requested = name("RequestedEvaluations", z.object({ evaluations: z.array(evaluation) }));

const list = name("EvaluationList", z.object({ evaluations: z.array(evaluation), next }));

const listQuery = z.object({
  ...page,
  campaign: z.string().min(1).max(64).optional().describe("A campaign's id or name."),
  state: evaluationState.optional(),
});

const waitQuery = z.object({
  wait: z.string().regex(/^\d+(\.\d+)?$/, "must be a number of seconds").transform(Number)
    .pipe(z.number().max(MAX_WAIT, `must be at most ${MAX_WAIT}`)).optional()
    .describe(`Seconds, at most ${MAX_WAIT}, to wait for its end. Default 0.`),
});

/** The routes of evaluations. `closing` aborts when the server stops; `pools` are the names that jobs may ask for. */
export function evaluationRoutes(
  evaluations: Evaluations,
  pools: () => readonly string[],
  closing: AbortSignal,
): Route[] {
  return [
    route({
      method: "post",
      path: "/v1/evaluations",
      access: "act",
      operation: "requestEvaluations",
      summary: "Queue an evaluation of each revision.",
      body: request,
      answer: requested,
      status: 201,
    }, async ({ body }) => {
      if (body.pool !== undefined) checkPool(body.pool, pools());
      return { evaluations: await evaluations.request(refOf(body), wantedOf(body)) };
    }),
    route({
      method: "get",
      path: "/v1/evaluations",
      access: "read",
      operation: "listEvaluations",
      summary: "Evaluations, newest first.",
      query: listQuery,
      answer: list,
    }, async ({ query }) => {
      const { campaign, state, after, limit = DEFAULT_LIMIT } = query;
      const found = campaign === undefined
        ? null
        : await evaluations.campaign(campaignRef(campaign));
      const items = await evaluations.list({
        limit,
        ...(found === null ? {} : { campaign: found.id }),
        ...(state === undefined ? {} : { state }),
        ...(after === undefined ? {} : { before: after }),
      });
      return { evaluations: items, next: nextOf(items, limit, (item) => item.evaluation) };
    }),
    route({
      method: "get",
      path: "/v1/evaluations/{id}",
      access: "read",
      operation: "showEvaluation",
      summary: "One evaluation; with `wait`, once it ended or the time is over.",
      params: idParams,
      query: waitQuery,
      answer: evaluation,
    }, async ({ params, query, signal }) => {
      const gone = AbortSignal.any([signal, closing]);
      return await evaluations.waitFor(params.id, (query.wait ?? 0) * 1000, gone);
    }),
  ];
}

function refOf({ campaign, path }: z.output<typeof request>): CampaignRef {
  if ((campaign === undefined) === (path === undefined)) {
    throw new SubletError("invalid_body", "name either a campaign or a path in its checkout");
  }
  if (path !== undefined) return { path };
  return typeof campaign === "number" ? { campaign } : campaignRef(campaign ?? "");
}

function wantedOf(body: z.output<typeof request>): EvaluationRequest {
  const { revisions, repeats, against, pool, priority, dedup } = body;
  return {
    revisions,
    ...(repeats === undefined ? {} : { repeats }),
    ...(against === undefined ? {} : { against }),
    ...(pool === undefined ? {} : { pool }),
    ...(priority === undefined ? {} : { priority }),
    ...(dedup === undefined ? {} : { dedup }),
  };
}

function checkPool(pool: string, pools: readonly string[]): void {
  if (pools.includes(pool)) return;
  throw new SubletError(
    "not_found",
    `there is no pool ${pool}: the server has ${[...pools].sort().join(", ")}`,
  );
}
