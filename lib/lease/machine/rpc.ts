/**
 * @module What crosses between the supervisor and its Web Worker. The supervisor trusts nothing of what comes from
 * there: every message is judged by its shape here, and every path and variable by `guarded_processes.ts`.
 */

import * as z from "zod";
import {
  type ErrorCode,
  ERRORS,
  type ExecResult,
  type ExecSpec,
  type Exit,
  messageOf,
  type Processes,
  type ProcessRef,
  type StartSpec,
  SubletError,
} from "../../home/mod.ts";
import type { SessionFile, SessionFiles, SessionPattern } from "../../job/mod.ts";
import type { HostSample } from "../wire.ts";

const code = z.enum(Object.keys(ERRORS) as [ErrorCode, ...ErrorCode[]]);
const fault = z.object({ code, message: z.string() });
const text = z.string().max(1_000_000);
/** Text that goes into a line that others read: it cannot make more lines of it. */
const line = z.string().regex(/^\P{Cc}*$/u);
const env = z.record(z.string(), text);
const argv = z.array(text).min(1).max(100_000);
const ref = z.object({ pid: z.int().positive(), startTime: z.number().nullable() });

const pattern = z.object({
  file: text,
  folder: text.nullable(),
  sessionId: text,
  env,
});

/** The arguments of each call, by name. */
const calls = {
  start: z.object({
    argv,
    cwd: text,
    env,
    stdout: text,
    stderr: text,
    tag: text,
    place: text.optional(),
    pathFirst: text.optional(),
    outlives: z.object({ exit: text, seconds: z.number().positive().max(1e9) }).optional(),
  }),
  wait: z.object({ ref }),
  alive: z.object({ ref }),
  stop: z.object({
    ref,
    tag: text.nullable(),
    graceMs: z.number().min(0).max(600_000),
    place: text.optional(),
  }),
  exec: z.object({
    argv,
    cwd: text,
    env: env.optional(),
    stdin: z.union([z.instanceof(Uint8Array), z.object({ path: text })]).optional(),
    stdoutPath: text.optional(),
    timeoutMs: z.number().positive().optional(),
  }),
  sample: z.object({}),
  findSession: z.object({ pattern }),
  readSession: z.object({
    path: text,
    from: z.int().min(0),
    max: z.int().min(0).max(16 * 1024 * 1024),
  }),
  restoreSession: z.object({ pattern, name: text, source: text }),
} as const;

type Call = keyof typeof calls;

/** What the Web Worker says. `up`: its code is loaded. `beat`: its loop turns. The rest ends in one of the last two. */
export const fromWorker = z.discriminatedUnion("type", [
  z.object({ type: z.literal("up") }),
  z.object({ type: z.literal("beat") }),
  z.object({
    type: z.literal("call"),
    id: z.int(),
    call: z.enum(Object.keys(calls) as [Call, ...Call[]]),
    args: z.unknown(),
  }),
  z.object({
    type: z.literal("registered"),
    worker: line.max(300),
    url: line.max(3000),
  }),
  z.object({
    type: z.literal("ended"),
    how: z.enum(["drained", "once", "orphaned", "stopped"]),
  }),
  z.object({ type: z.literal("failed"), error: fault }),
]);
export type FromWorker = z.output<typeof fromWorker>;

/** What the Web Worker is to do. */
export interface Boot {
  readonly server: string;
  readonly token: string;
  readonly pool: string;
  /** Without links in its path. */
  readonly home: string;
  /** The argv that runs this program. */
  readonly self: readonly string[];
  readonly key: string;
  readonly casTable: Readonly<Record<string, unknown>>;
  /** Variables that the store reads: this thread has no environment. */
  readonly casEnv: Readonly<Record<string, string>>;
  readonly version: string;
  readonly labels: readonly string[];
  readonly once: boolean;
  readonly orphanExitSeconds: number | null;
  readonly minFreeBytes: number;
  /** PEM text of roots to trust beside the usual ones. */
  readonly ca: string | null;
}

/** What the supervisor says. */
export type ToWorker =
  | { readonly type: "boot"; readonly boot: Boot }
  | { readonly type: "drain" }
  | { readonly type: "leave" }
  | { readonly type: "stop" }
  | { readonly type: "answer"; readonly id: number; readonly value: unknown }
  | {
    readonly type: "refusal";
    readonly id: number;
    readonly error: { readonly code: ErrorCode; readonly message: string };
  };

/** An error as it crosses. */
export function faultOf(error: unknown): { code: ErrorCode; message: string } {
  return {
    code: error instanceof SubletError ? error.code : "internal",
    message: messageOf(error),
  };
}

/** What the supervisor does for its Web Worker. */
export interface Machine {
  readonly processes: Processes;
  readonly sessions: SessionFiles;
  readonly sample: () => Promise<HostSample>;
}

/** Do what a call asks of the machine; the answer. Throws `invalid_request` for a call of another shape. */
export async function answerCall(
  { processes, sessions, sample }: Machine,
  call: Call,
  args: unknown,
): Promise<unknown> {
  switch (call) {
    case "start":
      // Absent and undefined are the same here, which the type of the port tells apart.
      return await processes.start(judged(calls.start, args) as StartSpec);
    case "wait":
      return await processes.wait(judged(calls.wait, args).ref);
    case "alive":
      return await processes.alive(judged(calls.alive, args).ref);
    case "stop": {
      const { ref, tag, graceMs, place } = judged(calls.stop, args);
      return await processes.stop(ref, tag, graceMs, place);
    }
    case "exec":
      return await processes.exec(judged(calls.exec, args) as ExecSpec);
    case "sample":
      return await sample();
    case "findSession":
      return await sessions.find(judged(calls.findSession, args).pattern);
    case "readSession": {
      const { path, from, max } = judged(calls.readSession, args);
      return await sessions.read(path, from, max);
    }
    case "restoreSession": {
      const { pattern, name, source } = judged(calls.restoreSession, args);
      return await sessions.restore(pattern, name, source);
    }
  }
}

function judged<T extends z.ZodType>(shape: T, args: unknown): z.output<T> {
  const parsed = shape.safeParse(args);
  if (parsed.success) return parsed.data;
  const first = parsed.error.issues[0];
  throw new SubletError(
    "invalid_request",
    `a call of the worker is refused: ${first?.path.join(".")}: ${first?.message}`,
  );
}

/** `pattern` as it can be sent. */
function plain(pattern: SessionPattern): SessionPattern {
  return { ...pattern, env: { ...pattern.env } };
}

/** The Web Worker's end: `Processes`, session files and the host's sample, by asking the supervisor. */
export class SupervisorClient implements Processes {
  readonly #post: (message: FromWorker) => void;
  readonly #waiting = new Map<
    number,
    { resolve: (value: unknown) => void; reject: (error: SubletError) => void }
  >();
  #next = 1;

  constructor(post: (message: FromWorker) => void) {
    this.#post = post;
  }

  /** An answer of the supervisor. */
  take(message: ToWorker & { readonly type: "answer" | "refusal" }): void {
    const waiting = this.#waiting.get(message.id);
    this.#waiting.delete(message.id);
    if (message.type === "answer") waiting?.resolve(message.value);
    else waiting?.reject(new SubletError(message.error.code, message.error.message));
  }

  start(spec: StartSpec): Promise<ProcessRef> {
    return this.#ask("start", { ...spec });
  }

  wait(ref: ProcessRef): Promise<Exit> {
    return this.#ask("wait", { ref });
  }

  alive(ref: ProcessRef): Promise<boolean> {
    return this.#ask("alive", { ref });
  }

  stop(ref: ProcessRef, tag: string | null, graceMs: number, place?: string): Promise<void> {
    return this.#ask("stop", { ref, tag, graceMs, place });
  }

  exec(spec: ExecSpec): Promise<ExecResult> {
    return this.#ask("exec", { ...spec });
  }

  sample(): Promise<HostSample> {
    return this.#ask("sample", {});
  }

  /** Session files of harnesses. */
  readonly sessions: SessionFiles = {
    find: (pattern) => this.#ask<SessionFile | null>("findSession", { pattern: plain(pattern) }),
    read: (path, from, max) => this.#ask("readSession", { path, from, max }),
    restore: (pattern, name, source) =>
      this.#ask<void>("restoreSession", { pattern: plain(pattern), name, source }),
  };

  #ask<T>(call: Call, args: Record<string, unknown>): Promise<T> {
    const id = this.#next++;
    return new Promise<T>((resolve, reject) => {
      this.#waiting.set(id, { resolve: (value) => resolve(value as T), reject });
      this.#post({ type: "call", id, call, args });
    });
  }
}
