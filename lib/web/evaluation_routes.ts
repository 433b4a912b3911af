/** @module The API's routes of evaluations. */

import * as z from "zod";
import {
  type EvaluationRequest,
  type Evaluations,
  MAX_REPEATS,
  MAX_REVISIONS,
} from "../job/mod.ts";
import { campaignRef } from "./campaign_routes.ts";
import { checkPool, ofCampaign, pickDefined, refOf, revisionName, waitQuery } from "./requests.ts";
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

const request = name(
  "EvaluationRequest",
  z.object({
    ...ofCampaign,
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

function wantedOf(body: z.output<typeof request>): EvaluationRequest {
  const { campaign: _, path: __, revisions, ...options } = body;
  return { revisions, ...pickDefined(options) };
}
