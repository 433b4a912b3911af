/**
 * @module The commands that an agent may run on its server: operations on its own campaign, each with its own arguments.
 * What they answer is one JSON document, as the command line prints with `--json`.
 */

import { parseArgs, type ParseArgsOptionsConfig } from "node:util";
import { type Cas, parseCid } from "../cas/mod.ts";
import { EXIT, isError, type Log, messageOf, SubletError } from "../home/mod.ts";
import { type Agents, type Evaluations, MAX_REPEATS } from "../job/mod.ts";
import type { JobCommands } from "../lease/mod.ts";
import type { ApiEngine } from "./engine_port.ts";

/** Longest text of a log file that is answered: its end. */
const MAX_LOG = 1024 * 1024;
const MAX_LISTED = 200;
const TIMEOUT_MS = 110_000;

/** What the commands work on. */
export interface AgentCommandsDeps {
  readonly engine: ApiEngine;
  readonly evaluations: Evaluations;
  readonly agents: Agents;
  readonly cas: Cas;
  readonly log: Log;
}

/** Who runs a command. */
interface Actor {
  readonly campaign: number;
  readonly signal: AbortSignal;
}

interface Operation {
  readonly usage: string;
  readonly options: ParseArgsOptionsConfig;
  /** How many arguments it takes besides its options. */
  readonly takes: readonly [number, number];
  run(actor: Actor, args: readonly string[], options: Options): Promise<unknown>;
}

type Options = Readonly<Record<string, unknown>>;

/** Runs commands of agents. */
export class AgentCommands implements JobCommands {
  readonly kind: string;
  readonly #deps: AgentCommandsDeps;
  readonly #operations: ReadonlyMap<string, Operation>;

  constructor(deps: AgentCommandsDeps) {
    this.#deps = deps;
    this.kind = deps.agents.kind.kind;
    this.#operations = new Map(Object.entries({ ...looks(deps), ...acts(deps) }));
  }

  async run(
    job: { readonly id: number; readonly key: string },
    argv: readonly string[],
    _stdin: string | null,
    signal: AbortSignal,
  ): ReturnType<JobCommands["run"]> {
    try {
      const agent = await this.#deps.agents.ofJob(job.id);
      if (agent === null) throw new SubletError("not_found", `job ${job.id} is no agent's`);
      const within = AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]);
      const [name, rest] = this.#named(argv);
      this.#deps.log.event("agent.command", { agent: agent.agent, job: job.id, command: name });
      const { campaign } = await this.#campaignOf(agent.campaign);
      const answer = await this.#operate(name, rest, { campaign, signal: within });
      return { stdout: `${JSON.stringify(answer)}\n`, stderr: "", exit_code: EXIT.ok };
    } catch (error) {
      const known = isError(error) && error.code !== "internal";
      if (!known) {
        this.#deps.log.event("agent.command_failed", { job: job.id, error: messageOf(error) });
      }
      return {
        stdout: "",
        stderr: `${known ? messageOf(error) : "the server failed: its log has the reason"}\n`,
        exit_code: known ? error.exit : EXIT.failed,
      };
    }
  }

  async #campaignOf(name: string): Promise<{ campaign: number }> {
    return { campaign: (await this.#deps.evaluations.campaign({ campaign: name })).id };
  }

  /** The operation that the first words name, and the other words. Throws `usage` with the list. */
  #named(argv: readonly string[]): [string, readonly string[]] {
    for (const words of [2, 1]) {
      const name = argv.slice(0, words).join(" ");
      if (argv.length >= words && this.#operations.has(name)) return [name, argv.slice(words)];
    }
    const list = [...this.#operations.values()].map(({ usage }) => `  sublet ${usage}`).join("\n");
    throw new SubletError(
      "usage",
      `'${argv.slice(0, 2).join(" ").slice(0, 200)}' is no command of agents. They have:\n` +
        `  sublet agent messages\n${list}`,
    );
  }

  async #operate(name: string, rest: readonly string[], actor: Actor): Promise<unknown> {
    const operation = this.#operations.get(name);
    if (operation === undefined) throw new SubletError("internal", `no operation ${name}`);
    const { usage, options, takes: [least, most] } = operation;
    const refuse = (why: string): never => {
      throw new SubletError("usage", `${why}: sublet ${usage}`);
    };
    let parsed: { values: Options; positionals: string[] };
    try {
      const withJson = { ...options, json: { type: "boolean" } } as const;
      parsed = parseArgs({ args: [...rest], options: withJson, allowPositionals: true });
    } catch (error) {
      return refuse(messageOf(error));
    }
    const { length } = parsed.positionals;
    if (length < least || length > most) refuse("the arguments do not fit");
    return await operation.run(actor, parsed.positionals, parsed.values);
  }
}

/** Operations that change nothing. */
function looks({ engine, evaluations, agents, cas }: AgentCommandsDeps): Record<string, Operation> {
  const own = async (text: string, { campaign }: Actor) => {
    const id = Number(text);
    if (!/^\d{1,15}$/.test(text)) throw new SubletError("usage", `'${text}' is no job's number`);
    const job = await engine.showJob(id);
    // Whether another campaign has such a job is none of an agent's business.
    if (job.campaign !== campaign) throw new SubletError("not_found", `there is no job ${id}`);
    return job;
  };
  return {
    status: {
      usage: "status",
      options: {},
      takes: [0, 0],
      run: async ({ campaign }) => {
        const { name } = await evaluations.campaign({ campaign });
        return { campaign: name, evaluations: await evaluations.counts(campaign) };
      },
    },
    "job list": {
      usage: "job list",
      options: {},
      takes: [0, 0],
      run: ({ campaign }) => engine.listJobs({ campaign, limit: MAX_LISTED }),
    },
    "job show": {
      usage: "job show JOB",
      options: {},
      takes: [1, 1],
      run: async (actor, [text = ""]) => {
        const job = await own(text, actor);
        const [evaluation, agent] = await Promise.all([
          evaluations.ofJob(job.job),
          agents.ofJob(job.job),
        ]);
        return { ...job, evaluation, agent };
      },
    },
    "job logs": {
      usage: "job logs JOB [FILE]",
      options: {},
      takes: [1, 2],
      run: async (actor, [text = "", file]) => {
        const { job } = await own(text, actor);
        const files = (await evaluations.ofJob(job) ?? await agents.ofJob(job))?.files ?? {};
        if (file === undefined) return { files };
        const address = Object.hasOwn(files, file) ? files[file] : undefined;
        const bytes = address === undefined ? null : await cas.get(parseCid(address));
        if (bytes === null) throw new SubletError("not_found", `job ${job} has no file ${file}`);
        return { file, text: new TextDecoder().decode(bytes.subarray(-MAX_LOG)) };
      },
    },
  };
}

/** Operations that ask for work. */
function acts({ evaluations }: AgentCommandsDeps): Record<string, Operation> {
  return {
    eval: {
      usage: "eval REVISION… [--repeats N] [--against REVISION] [--no-wait]",
      options: {
        repeats: { type: "string" },
        against: { type: "string" },
        "no-wait": { type: "boolean" },
      },
      takes: [1, 20],
      run: async ({ campaign, signal }, revisions, options) => {
        const { repeats, against } = options as { repeats?: string; against?: string };
        if (
          repeats !== undefined &&
          !(/^[1-9]\d{0,3}$/.test(repeats) && Number(repeats) <= MAX_REPEATS)
        ) {
          throw new SubletError("usage", `--repeats takes a whole number from 1 to ${MAX_REPEATS}`);
        }
        const queued = await evaluations.request({ campaign }, {
          revisions,
          ...(repeats === undefined ? {} : { repeats: Number(repeats) }),
          ...(against === undefined ? {} : { against }),
        });
        if (options["no-wait"] === true) return { evaluations: queued };
        const ended = await Promise.all(
          queued.map(({ evaluation }) => evaluations.waitFor(evaluation, TIMEOUT_MS, signal)),
        );
        return { evaluations: ended };
      },
    },
  };
}
