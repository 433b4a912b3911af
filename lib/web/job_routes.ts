/** @module The API's routes of jobs. */

import * as z from "zod";
import type { Agents, Evaluations } from "../job/mod.ts";
import { agent } from "./agent_schemas.ts";
import { campaignRef } from "./campaign_routes.ts";
import type { ApiEngine } from "./engine_port.ts";
import { cancellation, cancelled, jobDetails, jobList, jobState, retried } from "./job_schemas.ts";
import { type Route, route } from "./route.ts";
import { DEFAULT_LIMIT, idParams, nextOf, page } from "./schemas.ts";

const listQuery = z.object({
  ...page,
  state: jobState.optional(),
  kind: z.string().max(64).optional(),
  campaign: z.string().min(1).max(64).optional().describe("A campaign's id or name."),
});

/** The routes of jobs. */
export function jobRoutes(engine: ApiEngine, evaluations: Evaluations, agents: Agents): Route[] {
  return [
    route({
      method: "get",
      path: "/v1/jobs",
      access: "read",
      operation: "listJobs",
      summary: "Jobs, newest first.",
      query: listQuery,
      answer: jobList,
    }, async ({ query: { state, kind, campaign, after, limit = DEFAULT_LIMIT } }) => {
      const of = campaign === undefined ? null : await evaluations.campaign(campaignRef(campaign));
      const jobs = await engine.listJobs({
        limit,
        ...(state === undefined ? {} : { state }),
        ...(kind === undefined ? {} : { kind }),
        ...(of === null ? {} : { campaign: of.id }),
        ...(after === undefined ? {} : { before: after }),
      });
      return { jobs, next: nextOf(jobs, limit, ({ job }) => job) };
    }),
    route({
      method: "get",
      path: "/v1/jobs/{id}",
      access: "read",
      operation: "showJob",
      summary: "One job: its leases, what happened to it, why it waits, and late reports.",
      params: idParams,
      answer: jobDetails,
    }, async ({ params: { id } }) => {
      const job = await engine.showJob(id);
      const [evidence, evaluation, found] = await Promise.all([
        engine.evidence(id),
        evaluations.ofJob(id),
        agents.ofJob(id),
      ]);
      const prompts = found === null ? [] : await agents.prompts(found.agent);
      const events = job.events.map(plain);
      return { ...job, events, evidence, evaluation, agent: found, prompts };
    }),
    ...endings(engine),
    route({
      method: "post",
      path: "/v1/jobs/{id}/recover",
      access: "act",
      operation: "recoverJob",
      summary: "Take what the worker of a lost agent handed in too late: its commits and files.",
      params: idParams,
      answer: agent,
    }, async ({ params: { id } }) => await agents.recover(id, await engine.evidence(id))),
  ];
}

function endings(engine: ApiEngine): Route[] {
  return [
    route({
      method: "post",
      path: "/v1/jobs/{id}/cancel",
      access: "act",
      operation: "cancelJob",
      summary:
        "Cancel a job: a queued one ends at once, a running one is stopped and still reports.",
      params: idParams,
      body: cancellation,
      answer: cancelled,
    }, async ({ params: { id }, body, caller }) => {
      const reason = body.reason ?? `cancelled by ${caller?.name}`;
      return { job: id, outcome: await engine.cancelJob(id, reason) };
    }),
    route({
      method: "post",
      path: "/v1/jobs/{id}/retry",
      access: "act",
      operation: "retryJob",
      summary: "Queue a job again that is dead or cancelled, with all its attempts.",
      params: idParams,
      answer: retried,
    }, async ({ params: { id } }) => {
      return { job: id, lease: await engine.retryJob(id) };
    }),
  ];
}

function plain<T extends { fields: Readonly<Record<string, unknown>> }>(event: T) {
  return { ...event, fields: { ...event.fields } };
}
