/** @module An agent's machine with a real repository of record, a store in memory, real processes and stub harnesses. */

import { dirname } from "node:path";
import { type Cid, openMemory, parseCid, putManifest } from "../../lib/cas/mod.ts";
import { systemClock, systemIds } from "../../lib/home/mod.ts";
import {
  type AgentFinished,
  type AgentJob,
  type AgentNotStarted,
  type AgentReport,
  agentReport,
  AgentRunner,
  type AgentRunnerOptions,
  type JobControl,
  type JobHandle,
  type Outcome,
  type SavedPart,
  type Site,
} from "../../lib/job/mod.ts";
import { harnessNamed } from "../../lib/job/harness.ts";
import { startOf } from "../../lib/job/harness_start.ts";
import { SystemSessionFiles } from "../../lib/lease/machine/session_files.ts";
import { standingIn } from "../../lib/lease/machine/process_place.ts";
import { systemProcesses } from "../../lib/lease/machine/processes.ts";
import { type Captured, GitVcs } from "../../lib/vcs/mod.ts";
import { run, TempDir } from "../kit/mod.ts";

const IDENTITY = ["-c", "user.name=Test", "-c", "user.email=test@example.org"];
const STUBS = new URL("../fixtures/harnesses/", import.meta.url).pathname;

/** A control that a test holds, and that puts the parts of streams together as a server does. */
export class AgentControl implements JobControl {
  readonly #stopper = new AbortController();
  readonly #leaver = new AbortController();
  readonly #ender = new AbortController();
  readonly handles: JobHandle[] = [];
  readonly parts: Omit<SavedPart, "lease">[] = [];
  readonly sessions: string[] = [];
  secretValues: Record<string, string> = {};
  /** What `secrets` rejects with. */
  secretsFail: Error | null = null;
  /** What `saved` rejects with. */
  savedFails: Error | null = null;

  constructor(readonly lease = 7, readonly live = true) {}

  get stop(): AbortSignal {
    return this.#stopper.signal;
  }

  get leave(): AbortSignal {
    return this.#leaver.signal;
  }

  get ending(): AbortSignal {
    return this.#ender.signal;
  }

  revoke(reason = "the lease was revoked"): void {
    this.#stopper.abort(new Error(reason));
  }

  /** The worker goes, and the job is to stay. */
  go(): void {
    this.#leaver.abort(new Error("the worker goes"));
  }

  end(): void {
    this.#ender.abort(new Error("the worker ends"));
  }

  started(handle: JobHandle): Promise<boolean> {
    this.handles.push(handle);
    return Promise.resolve(this.live);
  }

  identified(sessionId: string): void {
    this.sessions.push(sessionId);
  }

  secrets(): Promise<ReadonlyMap<string, string>> {
    if (this.secretsFail !== null) return Promise.reject(this.secretsFail);
    return Promise.resolve(new Map(Object.entries(this.secretValues)));
  }

  saved(part: Omit<SavedPart, "lease">): Promise<boolean> {
    if (this.savedFails !== null) return Promise.reject(this.savedFails);
    this.parts.push(part);
    return Promise.resolve(true);
  }
}

/** A machine with a home of its own, and a repository of record elsewhere. */
export class AgentBench implements AsyncDisposable {
  readonly events: { event: string; fields: Record<string, unknown> }[] = [];
  readonly cas = openMemory();
  readonly env: Record<string, string>;
  readonly site: Site;
  runner: AgentRunner;
  readonly #options: AgentRunnerOptions;

  private constructor(
    readonly dir: TempDir,
    readonly revision: string,
    options: Partial<AgentRunnerOptions>,
    site: Partial<Site>,
  ) {
    this.env = {
      PATH: `${STUBS}:${Deno.env.get("PATH") ?? "/usr/bin:/bin"}`,
      HOME: dir.join("user"),
      SECRET_OF_THE_WORKER: "none of the agent's",
      SUBLET_HTTPS_TOKEN: "slt_none_of_the_agents",
    };
    this.site = {
      home: dir.join("home"),
      cas: this.cas,
      processes: systemProcesses({ env: this.env }),
      sessions: new SystemSessionFiles(this.env),
      clock: systemClock,
      ids: systemIds,
      log: { event: (event, fields = {}) => void this.events.push({ event, fields }) },
      send: (_repo, revisions, have) => this.#send(revisions, have),
      ...site,
    };
    this.#options = {
      vcs: { git: new GitVcs(this.site) },
      graceMs: 300,
      everyMs: 100,
      ...options,
    };
    this.runner = new AgentRunner(this.site, this.#options);
  }

  static async make(
    options: Partial<AgentRunnerOptions> = {},
    site: Partial<Site> = {},
  ): Promise<AgentBench> {
    const dir = await TempDir.make();
    for (const name of ["home", "user"]) await Deno.mkdir(dir.join(name));
    const record = dir.join("record");
    await run(["git", "init", "-q", record]);
    await Deno.writeTextFile(`${record}/value`, "1\n");
    await Deno.writeTextFile(`${record}/.gitignore`, "ignored\n");
    return new AgentBench(dir, await commit(record, "first"), options, site);
  }

  /** Another runner on the same site: what a worker that started again has. Its processes are not its children. */
  restarted(site: Partial<Site> = {}): AgentRunner {
    const again: Site = { ...this.site, processes: systemProcesses({ env: this.env }), ...site };
    return new AgentRunner(again, { ...this.#options, vcs: { git: new GitVcs(again) } });
  }

  async commit(files: Record<string, string>): Promise<string> {
    for (const [path, text] of Object.entries(files)) {
      await Deno.mkdir(dirname(this.dir.join("record", path)), { recursive: true });
      await Deno.writeTextFile(this.dir.join("record", path), text);
    }
    return await commit(this.dir.join("record"), "next");
  }

  async #send(revisions: readonly string[], have: readonly string[]): Promise<Cid[]> {
    const record = await new GitVcs(this.site).open(this.dir.join("record"));
    const sent = await record.send(this.cas, revisions, have);
    return sent === null ? [] : [sent.blob];
  }

  text(text: string): Promise<Cid> {
    return this.cas.put(new TextEncoder().encode(text));
  }

  /** The manifest of a tree of files. */
  async tree(files: Record<string, string>): Promise<Cid> {
    const entries = await Promise.all(
      Object.entries(files).map(async ([path, text]) => ({
        path,
        mode: 0o644,
        size: new TextEncoder().encode(text).length,
        blob: await this.text(text),
      })),
    );
    return await putManifest(this.cas, entries);
  }

  /** The JSON of a job whose stub harness runs `script`, as a server makes it. */
  async job(script: string, fields: Record<string, unknown> = {}, harness = "claude") {
    const table = harnessNamed(harness, [], harness === "command" ? ["/bin/sh", "-c", script] : []);
    const sessionId = fields["session_id"] as string | undefined ??
      (harness === "codex" || harness === "command" ? null : systemIds.uuid());
    const lines = script.split("\n").map((line) => `$ ${line}`).join("\n");
    const spec = startOf(table, {
      model: "m",
      effort: "high",
      sessionId,
      prompt: null,
      resumes: false,
      actor: "agent#5",
    });
    const job: Partial<AgentJob> & Record<string, unknown> = {
      kind: "agent",
      agent_session: 5,
      runtime: "subprocess",
      artifact: this.source() as unknown as AgentJob["artifact"],
      place: "agent_sessions/5",
      timeout: 60,
      brief_cid: await this.text(`Do this:\n${lines}\n`),
      spec,
      mcp: table.mcp,
      servers: {},
      secrets: {},
      usage: table.usage,
      session_id: sessionId,
      capture: 5,
      ...fields,
    };
    return job;
  }

  source(fields: Record<string, unknown> = {}) {
    return { vcs: { provider: "git" }, repo: 3, revision: this.revision, links: {}, ...fields };
  }

  /** Run `script` as an agent does, and return its report. */
  async report(
    script: string,
    fields: Record<string, unknown> = {},
    control = new AgentControl(),
    harness = "claude",
  ): Promise<AgentFinished> {
    return finishedOf(await this.runner.run(await this.job(script, fields, harness), control));
  }

  async read(cid: Cid | undefined | null): Promise<string> {
    const bytes = cid === undefined || cid === null ? null : await this.cas.get(cid);
    if (bytes === null) throw new Error("the store lacks it");
    return new TextDecoder().decode(bytes);
  }

  /** What the server has of the stream `name`, and that no part of it left a gap. */
  async stream(control: AgentControl, name: string): Promise<string> {
    let text = new Uint8Array();
    for (const part of control.parts.filter((each) => each.stream === name)) {
      const bytes = await this.cas.get(parseCid(part.blob));
      if (bytes === null || bytes.length !== part.bytes) throw new Error("a part is not its blob");
      if (part.offset > text.length) throw new Error(`a gap at ${text.length}`);
      const next = new Uint8Array(part.offset + bytes.length);
      next.set(text.subarray(0, part.offset));
      next.set(bytes, part.offset);
      text = next;
    }
    return new TextDecoder().decode(text);
  }

  /** The files of the version that came back, taken into the repository of record. */
  async take(work: Captured["work"] | AgentFinished["work"]): Promise<WorkOf> {
    if (work === null) throw new Error("no work came back");
    const record = await new GitVcs(this.site).open(this.dir.join("record"));
    const saved = await record.receive(this.cas, work, this.revision);
    const git = (...args: string[]) => run(["git", "-C", this.dir.join("record"), ...args]);
    return {
      subjects: saved.map(({ subject }) => subject),
      recovered: saved.map(({ recovered }) => recovered),
      show: (path) => git("show", `${work.head}:${path}`),
      files: async () => (await git("ls-tree", "-r", "--name-only", work.head)).trim().split("\n"),
    };
  }

  get root(): string {
    return this.dir.join("home/agent_sessions/5/lease-7");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.dir[Symbol.asyncDispose]();
  }
}

/** Versions that came back. */
export interface WorkOf {
  readonly subjects: string[];
  readonly recovered: (string | null)[];
  readonly show: (path: string) => Promise<string>;
  readonly files: () => Promise<string[]>;
}

export async function exists(path: string): Promise<boolean> {
  return await Deno.lstat(path).then(() => true, () => false);
}

/** Processes of the machine that stand in the bench's directory. */
export async function standing({ dir }: AgentBench): Promise<number[]> {
  return await standingIn(dir.path, null);
}

/** The report of `outcome`, as the server reads it. */
export function reportOf(outcome: Outcome): AgentReport {
  if (!("report" in outcome)) throw new Error(`no report: ${JSON.stringify(outcome)}`);
  return agentReport.parse(JSON.parse(JSON.stringify(outcome.report)));
}

export function finishedOf(outcome: Outcome): AgentFinished {
  const report = reportOf(outcome);
  if (report.kind !== "agent_finished") throw new Error(JSON.stringify(report));
  return report;
}

export function notStartedOf(outcome: Outcome): AgentNotStarted {
  const report = reportOf(outcome);
  if (report.kind !== "agent_not_started") throw new Error(JSON.stringify(report));
  return report;
}

async function commit(path: string, message: string): Promise<string> {
  const git = (...args: string[]) => run(["git", "-C", path, ...IDENTITY, ...args]);
  await git("add", "-A");
  await git("commit", "-q", "--allow-empty", "-m", message);
  return (await git("rev-parse", "HEAD")).trim();
}
