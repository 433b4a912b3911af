/** @module What an agent finds when it starts: its checkout with links and workspace, its brief, its earlier session. */

import { materialise, type Placed } from "../cas/mod.ts";
import { isError, messageOf, SubletError, writeBeneath } from "../home/mod.ts";
import { type AgentContext, ignoredOf, WORKSPACE } from "./agent_context.ts";
import type { SessionPattern } from "./agent_ports.ts";
import { folderOf } from "./agent_session.ts";
import type { AgentJob } from "./agent_shapes.ts";
import { placeInputs, tellRebuilt } from "./run_inputs.ts";
import { retryAway } from "./run_patience.ts";

const MAX_BRIEF_BYTES = 64 * 1024 * 1024;
const MAX_SESSION_BYTES = 1024 * 1024 * 1024;

/** What was put into the checkout. */
export interface Prepared {
  /** The workspace's files; null when it has none of ours. */
  readonly workspace: Placed | null;
}

/** Make everything that the agent starts with. A store or a server that is away for a moment is tried again. */
export async function prepare(context: AgentContext): Promise<Prepared> {
  const { site, control } = context;
  const again = <T>(work: () => Promise<T>) =>
    retryAway(site, control, "agent.not_ready", async () => {
      control.stop.throwIfAborted();
      return await work();
    });
  await again(() => checkout(context));
  const { artifact } = context.job;
  const { stop } = control;
  await again(() => placeInputs(site, context.inputs, artifact, context.place.worktree, stop));
  const workspace = await again(() => placeWorkspace(context));
  const { worktree } = context.place;
  const given = ignoredOf(context.job, workspace !== null);
  await again(async () => (await context.clones.of(artifact)).passOver(worktree, given));
  await again(() => writeBrief(context));
  await again(() => restoreSession(context));
  return { workspace };
}

async function checkout({ site, clones, control, job, place }: AgentContext): Promise<void> {
  const { artifact } = job;
  const { stop } = control;
  const repository = await clones.of(artifact);
  const supply = clones.supply(artifact, stop);
  const wanted = [...new Set([artifact.revision, ...artifact.history])];
  try {
    // In one transfer, as far as all are there.
    await repository.fetch(site.cas, wanted, supply.ask, stop);
  } catch (error) {
    if (!isError(error, "not_found", "failed", "not_sent") || wanted.length === 1) throw error;
    // Versions that others saved may be gone by now: the agent reads of those that are left.
    site.log.event("agent.history_lacks", { lease: control.lease, error: messageOf(error) });
  }
  await repository.checkout(artifact.revision, place.worktree, supply, stop);
}

/** Whether the checkout's workspace is the campaign's, and not a directory of the version itself. */
export async function hasWorkspace({ clones, job }: AgentContext): Promise<boolean> {
  const { artifact } = job;
  if (artifact.workspace === null) return false;
  const repository = await clones.of(artifact);
  return (await repository.untracked(artifact.revision, [WORKSPACE])).length > 0;
}

async function placeWorkspace(context: AgentContext): Promise<Placed | null> {
  const { site, inputs, job, place, control } = context;
  const { workspace } = job.artifact;
  if (workspace === null || !await hasWorkspace(context)) return null;
  const tree = await inputs.manifests.open(workspace.manifest);
  const placed = await materialise(tree, place.worktree, WORKSPACE, inputs.shared, {
    what: "the shared workspace",
    signal: control.stop,
    // Nothing of it is a link: they do not come back either.
    makeLinks: () => Promise.resolve(),
  });
  tellRebuilt(site, WORKSPACE, placed);
  return placed;
}

async function writeBrief({ site, job, place }: AgentContext): Promise<void> {
  if (job.brief_cid === null) return;
  const body = await site.cas.getStream(job.brief_cid, { maxBytes: MAX_BRIEF_BYTES });
  if (body === null) {
    throw new SubletError("not_found", `the store lacks the agent's brief ${job.brief_cid}`);
  }
  await writeBeneath(place.home, `${place.relative}/brief.md`, body.stream, {
    what: "the agent's brief",
    mode: 0o644,
  });
}

/** Where the session of `job` is, once its id is known; null when its harness says nothing of it. */
export function patternOf(job: AgentJob, cwd: string, sessionId: string): SessionPattern | null {
  const { usage, spec } = job;
  if (usage?.file === null || usage === null) return null;
  return {
    file: usage.file,
    folder: folderOf(usage.cwd, cwd),
    sessionId,
    env: spec?.env ?? {},
  };
}

/** Put the session that the agent goes on with where its harness looks for it, under the new checkout's name. */
async function restoreSession({ site, job, place }: AgentContext): Promise<void> {
  const { resume, usage } = job;
  if (resume === null || resume.file === null || resume.name === null) return;
  const pattern = patternOf(job, place.worktree, resume.session_id);
  if (pattern === null || usage === null || site.sessions === undefined) return;
  const body = await site.cas.getStream(resume.file, { maxBytes: MAX_SESSION_BYTES });
  if (body === null) {
    throw new SubletError("not_found", `the store lacks the agent's session ${resume.file}`);
  }
  const before = resume.cwd === null ? null : folderOf(usage.cwd, resume.cwd);
  const name = before !== null && pattern.folder !== null
    ? resume.name.split("/").map((part) => part === before ? pattern.folder : part).join("/")
    : resume.name;
  const file = ".run/session.jsonl";
  await writeBeneath(place.home, `${place.relative}/${file}`, body.stream, {
    what: "the agent's session",
  });
  await site.sessions.restore(pattern, name, `${place.root}/${file}`);
}
