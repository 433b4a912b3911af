/** @module A campaign on a real git repository, with a database, a store and a queue that only writes down. */

import { type Cas, openMemory } from "../../lib/cas/mod.ts";
import { type Clock, nullLog, systemClock, systemIds } from "../../lib/home/mod.ts";
import {
  Agents,
  type AgentTables,
  Evaluations,
  type PromptQueue,
  type Queue,
  type QueuedJob,
  streamOwner,
  Streams,
} from "../../lib/job/mod.ts";
import { type Db, openSqlite, type Tx } from "../../lib/store/mod.ts";
import { GitVcs } from "../../lib/vcs/mod.ts";
import { exec } from "../kit/exec.ts";
import { run, TempDir } from "../kit/mod.ts";

export const TOML = `
name = "demo"
evaluate = ["python3", "evaluate.py"]
evaluate_timeout = 30
[[metrics]]
name = "score"
direction = "higher"
role = "primary"
`;

const GIT_ENV = {
  GIT_AUTHOR_NAME: "t",
  GIT_AUTHOR_EMAIL: "t@example.org",
  GIT_COMMITTER_NAME: "t",
  GIT_COMMITTER_EMAIL: "t@example.org",
  GIT_CONFIG_GLOBAL: "/dev/null",
  GIT_CONFIG_NOSYSTEM: "1",
};

export const PORTS = { processes: { exec }, clock: systemClock, ids: systemIds, log: nullLog };

/** A git repository with a campaign's file. */
export class Repo {
  constructor(readonly path: string) {}

  static async make(path: string, toml = TOML): Promise<Repo> {
    await Deno.mkdir(path, { recursive: true });
    const repo = new Repo(path);
    await repo.git("init", "-q", "-b", "main");
    await repo.write("evaluate.py", "print('METRIC score=1')\n");
    await repo.write("sublet.toml", toml);
    await repo.commit("first version");
    return repo;
  }

  async git(...args: string[]): Promise<string> {
    return (await run(["git", ...args], { cwd: this.path, env: GIT_ENV })).trim();
  }

  async write(path: string, text: string): Promise<void> {
    const at = `${this.path}/${path}`;
    await Deno.mkdir(at.slice(0, at.lastIndexOf("/")), { recursive: true });
    await Deno.writeTextFile(at, text);
  }

  /** Commit everything; the revision. */
  async commit(subject: string): Promise<string> {
    await this.git("add", "-A");
    await this.git("commit", "-q", "--allow-empty", "-m", subject);
    return await this.git("rev-parse", "HEAD");
  }
}

/** A queue that gives ids and keeps what it got. */
export class FakeQueue implements Queue, PromptQueue {
  readonly jobs: (QueuedJob & { id: number })[] = [];
  failWith: Error | null = null;
  #next = 100;

  submit(tx: Tx, job: QueuedJob): Promise<{ job: number }> {
    if (this.failWith !== null) return Promise.reject(this.failWith);
    const id = this.#next++;
    tx.onCommit(() => this.jobs.push({ ...job, id }));
    return Promise.resolve({ job: id });
  }

  prompt(): Promise<number> {
    return Promise.reject(new Error("nothing runs here"));
  }

  recovered(): Promise<void> {
    return Promise.reject(new Error("nothing was lost here"));
  }

  /** The job of an evaluation, as its kind sees it. */
  ref(evaluation: number, lease: number, worker: string | null = "w1") {
    const job = this.jobs.find(({ key }) => key === String(evaluation));
    if (job === undefined) throw new Error(`evaluation ${evaluation} has no job`);
    return { id: job.id, kind: job.kind, key: job.key, lease, worker };
  }
}

/** Everything that a test of evaluations needs. */
export class Kit implements AsyncDisposable {
  private constructor(
    readonly dir: TempDir,
    readonly repo: Repo,
    readonly db: Db,
    readonly cas: Cas,
    readonly queue: FakeQueue,
    readonly evaluations: Evaluations,
    readonly streams: Streams,
    readonly agents: Agents,
  ) {}

  static async make(
    toml = TOML,
    clock: Clock = systemClock,
    tables: AgentTables = { harness: {}, mcp: {} },
  ): Promise<Kit> {
    const dir = await TempDir.make();
    const repo = await Repo.make(dir.join("repo"), toml);
    const db = await openSqlite(dir.join("db"));
    const cas = openMemory();
    const queue = new FakeQueue();
    const evaluations = new Evaluations({ db, cas, vcs: new GitVcs(PORTS), clock, log: nullLog });
    evaluations.bind(queue);
    const { streams, agents } = agentsOf({ db, cas, clock, home: dir.path, tables });
    agents.bind(queue);
    return new Kit(dir, repo, db, cas, queue, evaluations, streams, agents);
  }

  /** The agents of the same home after a restart, bound to nothing. */
  restartedAgents(cas: Cas = this.cas, clock: Clock = systemClock): Agents {
    const tables = { harness: {}, mcp: {} };
    return agentsOf({ db: this.db, cas, clock, home: this.dir.path, tables }).agents;
  }

  /** The same home after a restart: what was in memory is gone. */
  restarted(cas: Cas = this.cas, clock: Clock = systemClock): Evaluations {
    const deps = { db: this.db, cas, vcs: new GitVcs(PORTS), clock, log: nullLog };
    const evaluations = new Evaluations(deps);
    evaluations.bind(this.queue);
    return evaluations;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.evaluations.idle();
    await this.agents.idle();
    await this.db[Symbol.asyncDispose]();
    await this.dir[Symbol.asyncDispose]();
  }
}

function agentsOf(
  of: { db: Db; cas: Cas; clock: Clock; home: string; tables: AgentTables },
): { streams: Streams; agents: Agents } {
  const { db, cas, clock } = of;
  const streams = new Streams({ db, cas, clock, log: nullLog, owner: streamOwner });
  const deps = { vcs: new GitVcs(PORTS), ids: systemIds, log: nullLog, streams };
  return { streams, agents: new Agents({ ...of, ...deps }) };
}

/** What is there, for a test that knows that it is. */
export function sure<T>(value: T | null | undefined): T {
  if (value === null || value === undefined) throw new Error("it is not there");
  return value;
}
