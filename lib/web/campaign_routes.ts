/** @module The API's routes of campaigns. */

import * as z from "zod";
import type { Campaign, Evaluations } from "../job/mod.ts";
import { name, type Route, route } from "./route.ts";
import { DEFAULT_LIMIT, evaluationState, next, nextOf, page, time } from "./schemas.ts";

const summary = {
  id: z.int(),
  name: z.string(),
  path: z.string().describe("The root of its checkout on the server: the repo of record."),
  evaluator: z.string().describe("What measured the checkout's head when it was registered."),
  created_at: time,
  updated_at: time,
};

const campaign = name("Campaign", z.object(summary));

const details = name(
  "CampaignDetails",
  z.object({
    ...summary,
    config: z.record(z.string(), z.unknown()).describe("The campaign's file: the copy that runs."),
    evaluations: z.record(evaluationState, z.int()).describe("How many are in each state."),
  }),
);

const list = name("CampaignList", z.object({ campaigns: z.array(campaign), next }));

const registration = name(
  "CampaignRegistration",
  z.object({
    path: z.string().min(1).max(4096).startsWith("/", "must be an absolute path")
      .describe("A directory in a git checkout, on the server."),
  }),
);

const ref = z.object({
  id: z.string().min(1).max(64).describe("The campaign's id or name."),
});

/** The campaign that a path's or a body's text names: an id when it is a number. */
export function campaignRef(text: string): { campaign: number | string } {
  return { campaign: /^\d{1,15}$/.test(text) ? Number(text) : text };
}

/** The routes of campaigns. */
export function campaignRoutes(evaluations: Evaluations): Route[] {
  return [
    route({
      method: "post",
      path: "/v1/campaigns",
      access: "act",
      operation: "registerCampaign",
      summary: "Register a checkout as a campaign, or take in its file's new form.",
      body: registration,
      answer: campaign,
    }, async ({ body }) => view(await evaluations.register(body.path))),
    route({
      method: "get",
      path: "/v1/campaigns",
      access: "read",
      operation: "listCampaigns",
      summary: "Campaigns, oldest first.",
      query: z.object(page),
      answer: list,
    }, async ({ query: { after = 0, limit = DEFAULT_LIMIT } }) => {
      const campaigns = await evaluations.campaigns(after, limit);
      return { campaigns: campaigns.map(view), next: nextOf(campaigns, limit, ({ id }) => id) };
    }),
    route({
      method: "get",
      path: "/v1/campaigns/{id}",
      access: "read",
      operation: "showCampaign",
      summary: "One campaign, with its settings.",
      params: ref,
      answer: details,
    }, async ({ params }) => {
      const found = await evaluations.campaign(campaignRef(params.id));
      const counts = await evaluations.counts(found.id);
      return { ...view(found), config: { ...found.config }, evaluations: counts };
    }),
  ];
}

function view(campaign: Campaign): z.input<z.ZodObject<typeof summary>> {
  const { id, name, path, evaluator } = campaign;
  return {
    id,
    name,
    path,
    evaluator,
    created_at: new Date(campaign.createdAt).toISOString(),
    updated_at: new Date(campaign.updatedAt).toISOString(),
  };
}
