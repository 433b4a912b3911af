/**
 * @module The ports through which the core touches a machine: time, ids, the log and processes.
 *
 * `lib/lease` and the scaler get these instead of `Deno.*`, `Date.now`, `setTimeout`, `Math.random` or
 * `crypto.randomUUID`, so that the simulator can run them under a seeded virtual clock.
 */

/** Time. */
export interface Clock {
  /** Wall-clock time, in milliseconds since 1970 UTC. May jump. */
  now(): number;
  /** Monotonic time, in milliseconds since some fixed moment. Never goes back. */
  monotonic(): number;
  /** Resolve after `ms` milliseconds, or at once when `signal` aborts. It never rejects. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /** Call `run` once after `ms` milliseconds. The function that is returned cancels it. */
  after(ms: number, run: () => void): () => void;
}

/** Unpredictable values. */
export interface Ids {
  /** A fresh UUID (version 4), lower case. */
  uuid(): string;
  /** A number in [0, 1), for jitter. */
  random(): number;
}

/** What an operator reads afterwards: one structured line an event. */
export interface Log {
  /** Record `event` (a dotted name such as `worker.unreachable`) with its fields. */
  event(event: string, fields?: Record<string, unknown>): void;
}

/** A process that was started: its pid is also its session and process group. */
export interface ProcessRef {
  readonly pid: number;
  /** Seconds since 1970 at which it started, as the kernel knows it: tells it from a reused pid. Null: unknown. */
  readonly startTime: number | null;
}

/** How a process ended: exactly one of the two is set, or neither when nobody can tell any more. */
export interface Exit {
  readonly code: number | null;
  /** Such as `SIGKILL`. */
  readonly signal: string | null;
}

/** A long-running process of a job. Its output goes to files, so it outlives us. */
export interface StartSpec {
  readonly argv: readonly string[];
  /** Absolute, beneath the home. */
  readonly cwd: string;
  /** The whole environment beyond the base allow-list that the adapter adds (PATH, HOME, LANG, TMPDIR…). */
  readonly env: Readonly<Record<string, string>>;
  /** Absolute paths of files beneath the home, made new. */
  readonly stdout: string;
  readonly stderr: string;
  /**
   * The job's directory, absolute, without links and beneath the home: processes that stand in it are the job's, and
   * stopped with it. Default: there is none.
   */
  readonly place?: string;
  /** Marks every process of the job, as the variable `SUBLET_PROCESS_TAG` of its environment. */
  readonly tag: string;
  /** A directory that goes first on its PATH, absolute. Default: none. */
  readonly pathFirst?: string;
  /** It goes on when its worker ends without a word, for a later one to take over. Default: it need not. */
  readonly outlives?: Outlives;
}

/** What lets a job's process be taken over by a later worker. */
export interface Outlives {
  /** Absolute path of a file beneath the home, made new: it gets the exit code, in digits, once the command has ended. */
  readonly exit: string;
  /** After so many seconds its group is killed, whether or not anybody watches it. */
  readonly seconds: number;
}

/** A short helper process (git), awaited, whose output is read. */
export interface ExecSpec {
  readonly argv: readonly string[];
  readonly cwd: string;
  readonly env?: Readonly<Record<string, string>>;
  /** Bytes for its stdin, or the path of a file to read it from. Default: none. */
  readonly stdin?: Uint8Array | { readonly path: string };
  /** Write stdout to this path instead of returning it. */
  readonly stdoutPath?: string;
  /** Kill it after this many milliseconds. Default 600,000. */
  readonly timeoutMs?: number;
}

/** What {@linkcode ExecSpec} came to. */
export interface ExecResult {
  readonly code: number;
  readonly stdout: Uint8Array;
  /** At most its last 64 KiB. */
  readonly stderr: string;
}

/** Processes of this machine. In a worker this is a message to the supervisor, which alone may run anything. */
export interface Processes {
  /** Start a job's process in a session and group of its own, stdin null. Rejects when it cannot start. */
  start(spec: StartSpec): Promise<ProcessRef>;
  /** How `ref` ended; resolves when it did. A process that this port did not start has neither code nor signal. */
  wait(ref: ProcessRef): Promise<Exit>;
  /** Whether `ref` lives: same pid and, when known, same start time. A zombie counts as dead. */
  alive(ref: ProcessRef): Promise<boolean>;
  /**
   * TERM, `graceMs`, KILL to its group, then KILL to every process with `tag` and to those that stand in `place` (default:
   * that of its start) and are no older than `ref`, until none is left. Repeatable.
   */
  stop(ref: ProcessRef, tag: string | null, graceMs: number, place?: string): Promise<void>;
  /** Run a helper to its end. Rejects with `failed` when it cannot start; a non-zero code is an answer. */
  exec(spec: ExecSpec): Promise<ExecResult>;
}
