/** @module What the steps of one agent's job share. */

import type { Door, Redaction } from "./agent_ports.ts";
import type { AgentMessages } from "./agent_messages.ts";
import type { AgentPlace } from "./agent_place.ts";
import type { AgentJob } from "./agent_shapes.ts";
import type { Clones } from "./run_clones.ts";
import type { Inputs } from "./run_inputs.ts";
import type { LogLimits } from "./run_logs.ts";
import type { JobControl, Site } from "./runner.ts";

/** The checkout's directory of files that a campaign's agents share. */
export const WORKSPACE = "workspace";

/** One lease of an agent's job, and its machine. */
export interface AgentContext {
  readonly site: Site;
  readonly clones: Clones;
  readonly inputs: Inputs;
  readonly control: JobControl;
  readonly job: AgentJob;
  readonly place: AgentPlace;
  readonly messages: AgentMessages;
  /** Marks every process of the job. */
  readonly tag: string;
  /** Milliseconds between TERM and KILL. */
  readonly graceMs: number;
  readonly logs: LogLimits;
  /** Milliseconds between two looks at what it writes. */
  readonly everyMs: number;
  /** What is in its directory must not be removed. */
  readonly keep: () => void;
}

/** What the processes of an agent get, beside its job: kept in memory alone. */
export interface Given {
  /** Values of secrets, by variable. */
  readonly secrets: Readonly<Record<string, string>>;
  /** Some values cannot be had any more: what they must be hidden in does not leave this machine. */
  readonly lacks: boolean;
  readonly door: Door;
}

/** Hides the secrets of one agent. */
export class Hiding {
  readonly #redaction: Redaction | undefined;
  readonly #values: readonly string[];

  /** Nothing that the agent wrote may leave. */
  readonly withholds: boolean;

  constructor(site: Site, { secrets, lacks }: Omit<Given, "door">) {
    this.#redaction = site.redaction;
    this.#values = [...new Set(Object.values(secrets))];
    this.withholds = lacks && site.redaction !== undefined;
  }

  /** What each stream of the agent goes through, or null when there is nothing to hide. */
  get stream(): (() => TransformStream<Uint8Array, Uint8Array>) | null {
    if (this.#redaction === undefined || this.#values.length === 0) return null;
    return this.#redaction.streams(this.#values);
  }

  text(text: string): string {
    return this.#values.length === 0 ? text : this.#redaction?.text(this.#values, text) ?? text;
  }
}

/** Paths of the checkout that were put there from elsewhere, and are none of the agent's work. */
export function ignoredOf({ artifact }: AgentJob, hasWorkspace: boolean): string[] {
  return [...Object.keys(artifact.links), ...(hasWorkspace ? [WORKSPACE] : [])];
}

/** Whether the job came from a server of piloop's, whose agents know other names: it says who they are by one. */
export function isPiloops({ spec }: AgentJob): boolean {
  return spec !== null && "PILOOP_ACTOR" in spec.env && !("SUBLET_ACTOR" in spec.env);
}
