/** @module The commits of an agent, into the campaign's repository. */

import type { Cas } from "../cas/mod.ts";
import { SubletError } from "../home/mod.ts";
import type { Repository, Vcs } from "../vcs/mod.ts";
import type { AgentFinished } from "./agent_shapes.ts";
import type { Landed } from "./agent_store.ts";
import type { Campaign } from "./campaign_store.ts";

/** How many versions are listed of an agent, the newest. */
const LISTED = 100;

/** What {@linkcode takeWork} is given. */
export interface IncomingWork {
  readonly cas: Cas;
  readonly vcs: Vcs;
  /** Null: it is not registered any more. */
  readonly campaign: Campaign | null;
  readonly agent: number;
  /** The revision that the agent started from. */
  readonly base: string;
  readonly report: AgentFinished;
}

/** What of {@linkcode Landed} is commits. */
export type LandedWork = Pick<Landed, "head" | "ref" | "commits" | "versions" | "branches">;

/** The names under which an agent's versions are kept. No other ref is ever written. */
export function refsOf(agent: number): { readonly head: string; branch(index: number): string } {
  const base = `refs/sublet/agents/${agent}`;
  return { head: `${base}/head`, branch: (index) => `${base}/branch-${index + 1}` };
}

/**
 * Take what a report brings into the campaign's repository, and keep it under refs of the agent's own. Repeatable. Throws
 * what version control throws for something that it does not take.
 */
export async function takeWork(
  { cas, vcs, campaign, agent, base, report }: IncomingWork,
): Promise<LandedWork> {
  const { work, branches } = report;
  if (work === null) return { head: null, ref: null, commits: 0, versions: [], branches: [] };
  if (campaign === null) throw new SubletError("not_found", "its campaign is not known any more");
  const repository = await vcs.open(campaign.path, campaign.config.plugins.vcs);
  const saved = await repository.receive(cas, work, base);
  const refs = refsOf(agent);
  await repository.keep(work.head, refs.head);
  const versions = saved.slice(-LISTED).reverse().map(({ revision, subject }) => ({
    revision,
    subject,
  }));
  return {
    head: work.head,
    ref: refs.head,
    commits: saved.length,
    versions,
    branches: await keepBranches(repository, branches, (index) => refs.branch(index)),
  };
}

async function keepBranches(
  repository: Repository,
  branches: AgentFinished["branches"],
  refOf: (index: number) => string,
): Promise<Landed["branches"]> {
  if (branches.length === 0) return [];
  // A report can name anything: only what came, or was here, is kept.
  const here = await repository.has(branches.map(({ revision }) => revision));
  const kept = branches.filter(({ revision }) => here.has(revision))
    .map((branch, index) => ({ ...branch, ref: refOf(index) }));
  for (const { revision, ref } of kept) await repository.keep(revision, ref);
  return kept;
}
