/** @module What an agent came to, once nothing of it runs: its work, its files, and the report that names them. */

import type { Placed } from "../cas/mod.ts";
import { isError, isHostFault, messageOf } from "../home/mod.ts";
import type { Captured } from "../vcs/mod.ts";
import { type AgentContext, type Hiding, ignoredOf, WORKSPACE } from "./agent_context.ts";
import { hasWorkspace } from "./agent_prepare.ts";
import type { AgentExit, AgentFinished } from "./agent_shapes.ts";
import type { AgentTrack } from "./agent_track.ts";
import { writeTranscript } from "./agent_transcript.ts";
import { type WorkspaceChanges, workspaceChanges } from "./agent_workspace.ts";
import { LeftOut, storeLogs } from "./run_logs.ts";

/** How its processes ended. */
export interface AgentEnd {
  readonly exit: AgentExit;
  /** Turns that were begun. */
  readonly turns: number;
}

/** Bounds of what a report holds. */
const MAX_NAMED = 990;
const MAX_NOTES = 90;
const MAX_TEXT = 4_000;

/** A part of the report that could not be had, without which it goes out all the same. */
class Faults {
  readonly said: string[] = [];

  constructor(private readonly context: AgentContext, private readonly hiding: Hiding) {}

  add(what: string, error: unknown): void {
    const { site, control } = this.context;
    site.log.event("agent.not_brought_back", {
      lease: control.lease,
      what,
      error: this.hiding.text(messageOf(error)),
    });
    this.said.push(`${what}: ${messageOf(error)}`);
  }
}

/**
 * Bring back everything, and make the report. It can be called again when it rejects: nothing is removed. Rejects when
 * another try may help, such as while the store is away; what no other try could cure is said in the report.
 */
export async function finish(
  context: AgentContext,
  end: AgentEnd,
  track: AgentTrack,
  hiding: Hiding,
  placed: Placed | null,
): Promise<AgentFinished> {
  const { job, messages, place } = context;
  const faults = new Faults(context, hiding);
  let session: AgentFinished["session"] = null;
  try {
    if (!hiding.withholds) session = await track.store();
  } catch (error) {
    if (!isError(error, "too_large")) throw error;
    faults.add("its session", error);
  }
  await writeTranscript(place, end.turns, track.said);
  const gone = await Deno.lstat(place.worktree).then((info) => !info.isDirectory, () => true);
  const brought = gone ? nothing(true) : await bringBack(context, faults);
  if (gone) faults.add("its work", new Error("it removed its own checkout"));
  const { changes, leftOut } = gone ? NO_CHANGES : await changesOf(context, placed);
  for (const some of leftOut.some) brought.left_out.push(withReason(some));
  const files = hiding.withholds ? {} : await logsOf(context, hiding);
  if (hiding.withholds) {
    brought.notes.push(
      "what it wrote is kept back: the values of its secrets, which must not be in it, cannot be had any more",
    );
  }
  const { exit } = end;
  const error = [...(exit.error === null ? [] : [exit.error]), ...faults.said].join("; ");
  return {
    kind: "agent_finished",
    process: { ...exit, error: error === "" ? null : hiding.text(error) },
    session_id: track.sessionId ?? job.session_id,
    usage: track.usage,
    files,
    ...messages.ids(),
    workspace: { ...changes },
    session,
    ...brought,
    left_out: brought.left_out.map(({ path, reason }) => ({
      path: hiding.text(path),
      reason: hiding.text(reason),
    })),
    notes: brought.notes.map((note) => hiding.text(note)),
    left_out_count: brought.left_out_count + leftOut.count,
  };
}

/** What comes back of the checkout. */
type Brought = Pick<
  AgentFinished,
  "changed" | "work" | "branches" | "left_out" | "left_out_count" | "notes"
>;

function nothing(changed: boolean): Brought {
  return { changed, work: null, branches: [], left_out: [], left_out_count: 0, notes: [] };
}

/** A path of the workspace and why it is left out, as {@linkcode LeftOut} has it. */
function withReason(said: string): AgentFinished["left_out"][number] {
  const at = said.lastIndexOf(": ");
  return { path: `${WORKSPACE}/${said.slice(0, at)}`, reason: said.slice(at + 2) };
}

async function logsOf(context: AgentContext, hiding: Hiding): Promise<AgentFinished["files"]> {
  const { site, place, logs } = context;
  const isNoLog = (path: string) => place.isNoLog(path);
  const stored = await storeLogs(site.cas, place.root, isNoLog, logs, hiding.stream);
  if (stored.leftOut.count > 0) site.log.event("agent.logs_left_out", { ...stored.leftOut });
  return { ...stored.files };
}

/** The versions that it saved and, when they are wanted, its unsaved work on top. */
async function bringBack(context: AgentContext, faults: Faults): Promise<Brought> {
  const { site, clones, job, place } = context;
  const { artifact, capture } = job;
  const repository = await clones.of(artifact);
  const ignore = ignoredOf(job, await hasWorkspace(context));
  try {
    const differs = () => repository.changed(place.worktree, artifact.revision, { ignore });
    if (capture === null) return nothing(await differs());
    const captured = await repository.capture(site.cas, place.worktree, artifact.revision, {
      ignore,
      message:
        `Work that agent ${job.agent_session} had not saved\n\nSublet-Recovered: agent#${job.agent_session}\n`,
    });
    // What came back tells that it changed; only where nothing did is a look due.
    return { changed: captured.work !== null || await differs(), ...broughtOf(captured) };
  } catch (error) {
    const final = ["failed", "not_found", "invalid_request", "conflict", "too_large"] as const;
    if (!isError(error, ...final) || isHostFault(error)) throw error;
    context.keep();
    await place.keep(messageOf(error));
    faults.add(`its work, which is kept at ${place.worktree} on its worker`, error);
    return nothing(true);
  }
}

/** What was captured, within what a report holds. */
function broughtOf(captured: Captured): Omit<Brought, "changed"> {
  const { work, branches, leftOut, leftOutCount, notes } = captured;
  return {
    work,
    branches: branches.slice(0, MAX_NAMED).map(({ name, revision }) => ({ name, revision })),
    left_out: leftOut.slice(0, MAX_NAMED).map(({ path, reason }) => ({
      path: path.slice(0, MAX_TEXT),
      reason: reason.slice(0, MAX_TEXT),
    })),
    left_out_count: leftOutCount,
    notes: notes.slice(0, MAX_NOTES).map((note) => note.slice(0, MAX_TEXT)),
  };
}

const NO_CHANGES = { changes: {}, leftOut: new LeftOut() };

async function changesOf(
  context: AgentContext,
  placed: Placed | null,
): Promise<WorkspaceChanges> {
  return await hasWorkspace(context) ? await workspaceChanges(context, placed) : NO_CHANGES;
}
