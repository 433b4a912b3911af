/** @module A harness: how one coding agent's program is called, from the built-in ones and the tables over them. */

import { SubletError } from "../home/mod.ts";
import { type HarnessTable, holds } from "./harness_config.ts";
import { BUILT_IN, COMMAND } from "./harness_builtin.ts";
import type { UsageSpec } from "./agent_shapes.ts";

/** A harness with every key. */
export interface Harness {
  readonly name: string;
  readonly executable: string;
  /** Arguments of a first turn. */
  readonly headless: readonly string[];
  /** Arguments that go on with a session; none: it cannot. */
  readonly resume: readonly string[];
  readonly sessionIdPattern: string | null;
  readonly usage: UsageSpec | null;
  /** Variables that every agent gets empty. */
  readonly sessionEnv: readonly string[];
  readonly mcp: string | null;
  readonly env: Readonly<Record<string, string | { readonly secret: string }>>;
}

/** Tables of harnesses by name. */
export type HarnessTables = Readonly<Record<string, HarnessTable>>;

/**
 * The harness `name`, from the built-in one and, over it, the tables of `layers` in their order. `command` is what
 * {@linkcode COMMAND} runs. Throws `not_found` for a name that nothing has, and `invalid_request` for one that lacks a
 * key, or whose keys do not fit together.
 */
export function harnessNamed(
  name: string,
  layers: readonly HarnessTables[],
  command: readonly string[] = [],
): Harness {
  const tables = layers.flatMap((layer) => Object.hasOwn(layer, name) ? [layer[name] ?? {}] : []);
  const builtIn = Object.hasOwn(BUILT_IN, name) ? BUILT_IN[name] : undefined;
  if (builtIn === undefined && tables.length === 0) {
    const known = [...new Set([...Object.keys(BUILT_IN), ...layers.flatMap(Object.keys)])].sort();
    throw new SubletError(
      "not_found",
      `there is no harness ${name}: there are ${
        known.join(", ")
      }; another is a table [harness.NAME]`,
    );
  }
  const table: HarnessTable = Object.assign({}, builtIn, ...tables);
  const [program, ...args] = command;
  if (command.length > 0 && name !== COMMAND) {
    throw new SubletError("invalid_request", `only the harness ${COMMAND} takes a command`);
  }
  const executable = program ?? table.executable;
  const headless = program === undefined ? table.headless : args;
  if (executable === undefined || headless === undefined) {
    throw new SubletError(
      "invalid_request",
      name === COMMAND
        ? "the harness command runs a program of yours: give it after --, or as [harness.command] executable and headless"
        : `[harness.${name}] lacks ${executable === undefined ? "executable" : "headless"}`,
    );
  }
  const harness = {
    name,
    executable,
    headless,
    resume: table.resume ?? [],
    sessionIdPattern: table.session_id_pattern ?? null,
    usage: table.usage ?? null,
    sessionEnv: [...new Set([...SESSION_ENV, ...table.session_env ?? []])].sort(),
    mcp: table.mcp ?? null,
    env: table.env ?? {},
  };
  const fault = faultOf(harness);
  if (fault !== null) throw new SubletError("invalid_request", `[harness.${name}]: ${fault}`);
  return harness;
}

/** What does not fit together in a harness, or null. */
function faultOf({ headless, resume, usage, sessionIdPattern, mcp }: Harness): string | null {
  if (mcp === null && [...headless, ...resume].includes("{mcp}")) {
    return "{mcp} needs mcp, which says for which program it is rendered";
  }
  const learns = sessionIdPattern !== null || holds(headless, "{session_id}");
  if (usage !== null && !learns) {
    return "usage needs the session's id: pass {session_id}, or set session_id_pattern";
  }
  return null;
}

/** Variables that a coding agent sets for what it starts: an agent that is started in one is not its child. */
const SESSION_ENV = Object.values(BUILT_IN).flatMap((table) => table.session_env ?? []);
