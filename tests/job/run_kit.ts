/** @module A worker's site with a real repository of record, a store in memory and real processes, for tests. */

import { type Cas, type Cid, openMemory } from "../../lib/cas/mod.ts";
import { SubletError, systemClock, systemIds } from "../../lib/home/mod.ts";
import {
  type EvaluationReport,
  evaluationReport,
  EvaluationRunner,
  type EvaluationRunnerOptions,
  type JobControl,
  type JobHandle,
  type Outcome,
  type Site,
} from "../../lib/job/mod.ts";
import { GitVcs } from "../../lib/vcs/mod.ts";
import { run, TempDir } from "../kit/mod.ts";
import { TestProcesses } from "../kit/processes.ts";

const IDENTITY = ["-c", "user.name=Test", "-c", "user.email=test@example.org"];

/** A control that a test holds. */
export class Control implements JobControl {
  readonly #stopper = new AbortController();
  readonly handles: JobHandle[] = [];

  constructor(readonly lease = 7, readonly live = true) {}

  get stop(): AbortSignal {
    return this.#stopper.signal;
  }

  revoke(reason = "the lease was revoked"): void {
    this.#stopper.abort(new Error(reason));
  }

  started(handle: JobHandle): Promise<boolean> {
    this.handles.push(handle);
    return Promise.resolve(this.live);
  }
}

/** A machine with a home of its own, and a repository of record elsewhere. */
export class Bench implements AsyncDisposable {
  readonly processes = new TestProcesses();
  readonly events: { event: string; fields: Record<string, unknown> }[] = [];
  readonly runner: EvaluationRunner;
  readonly site: Site;
  sends = 0;
  /** Set: what `send` rejects with. */
  refusal: SubletError | null = null;

  private constructor(
    readonly dir: TempDir,
    readonly cas: Cas,
    readonly revision: string,
    options: EvaluationRunnerOptions,
    site: Partial<Site>,
  ) {
    this.site = {
      home: dir.join("home"),
      cas,
      processes: this.processes,
      clock: systemClock,
      ids: systemIds,
      log: { event: (event, fields = {}) => void this.events.push({ event, fields }) },
      send: (_repo, revisions, have) => this.#send(revisions, have),
      ...site,
    };
    this.runner = new EvaluationRunner(this.site, { graceMs: 200, ...options });
  }

  static async make(
    options: EvaluationRunnerOptions = {},
    site: (cas: Cas) => Partial<Site> = () => ({}),
  ): Promise<Bench> {
    const dir = await TempDir.make();
    await Deno.mkdir(dir.join("home"));
    const record = dir.join("record");
    await run(["git", "init", "-q", record]);
    await Deno.writeTextFile(`${record}/value`, "1\n");
    const revision = await commit(record, "first");
    const cas = openMemory();
    return new Bench(dir, cas, revision, options, site(cas));
  }

  /** Another runner on the same site: what a restarted worker has. */
  restarted(): EvaluationRunner {
    return new EvaluationRunner(this.site, { graceMs: 200 });
  }

  /** Commit `files` in the repository of record. */
  async commit(files: Record<string, string>): Promise<string> {
    for (const [path, text] of Object.entries(files)) {
      await Deno.writeTextFile(this.dir.join("record", path), text);
    }
    return await commit(this.dir.join("record"), "next");
  }

  async #send(revisions: readonly string[], have: readonly string[]): Promise<Cid[]> {
    this.sends++;
    if (this.refusal !== null) throw this.refusal;
    const record = await new GitVcs(this.site).open(this.dir.join("record"));
    const sent = await record.send(this.cas, revisions, have);
    return sent === null ? [] : [sent.blob];
  }

  source(fields: Record<string, unknown> = {}) {
    return { vcs: { provider: "git" }, repo: 3, revision: this.revision, links: {}, ...fields };
  }

  /** The JSON of a job that runs `script` with the shell. */
  job(script: string, fields: Record<string, unknown> = {}) {
    return {
      kind: "evaluation",
      evaluation: 5,
      candidate: 9,
      run: null,
      runner: "process",
      artifact: this.source(),
      place: "runs/12/eval-0",
      command: ["/bin/sh", "-c", script],
      timeout: 60,
      required: ["score"],
      bar: null,
      repeats: 1,
      ...fields,
    };
  }

  /** Run `script`, and return its report; anything else fails. */
  async report(
    script: string,
    fields: Record<string, unknown> = {},
    control = new Control(),
  ): Promise<EvaluationReport> {
    return reportOf(await this.runner.run(this.job(script, fields), control));
  }

  /** The text of a report's log file. */
  async log(report: EvaluationReport, path = "candidate-0/eval.stdout"): Promise<string> {
    const cid = report.files[path];
    const bytes = cid === undefined ? null : await this.cas.get(cid);
    if (bytes === null) throw new Error(`no log ${path}: ${Object.keys(report.files)}`);
    return new TextDecoder().decode(bytes);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.dir[Symbol.asyncDispose]();
  }
}

/** The report of `outcome`, as the server reads it. */
export function reportOf(outcome: Outcome): EvaluationReport {
  if (!("report" in outcome)) throw new Error(`no report: ${JSON.stringify(outcome)}`);
  return evaluationReport.parse(JSON.parse(JSON.stringify(outcome.report)));
}

async function commit(path: string, message: string): Promise<string> {
  const git = (...args: string[]) => run(["git", "-C", path, ...IDENTITY, ...args]);
  await git("add", "-A");
  await git("commit", "-q", "--allow-empty", "-m", message);
  return (await git("rev-parse", "HEAD")).trim();
}
