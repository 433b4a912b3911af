/** @module The secrets of an agent, asked for when it starts and when it is taken over, and its door to the server. */

import { messageOf, SubletError } from "../home/mod.ts";
import { type AgentContext, type Given, isPiloops } from "./agent_context.ts";
import { plainDoor } from "./agent_door.ts";

/**
 * Ask for the values of the job's secrets, by variable. Throws `not_found` with the names of those that are not set,
 * and what the server refused the question with.
 */
export async function askSecrets(
  { job, control }: AgentContext,
  signal: AbortSignal,
): Promise<Record<string, string>> {
  const wanted = Object.entries(job.secrets);
  if (wanted.length === 0) return {};
  const values = await control.secrets?.(signal) ?? new Map<string, string>();
  const lacking = [...new Set(wanted.map(([, name]) => name).filter((name) => !values.has(name)))];
  if (lacking.length > 0) {
    throw new SubletError(
      "not_found",
      `the agent needs secrets that are not set: ${lacking.sort().join(", ")}. ` +
        `Set each on the server: sublet secret set NAME`,
    );
  }
  return Object.fromEntries(
    wanted.map(([variable, name]) => [variable, values.get(name) ?? ""]),
  );
}

/** What the processes of an agent that starts get. The door is open until it is disposed of. */
export async function give(context: AgentContext, signal: AbortSignal): Promise<Given> {
  const secrets = await askSecrets(context, signal);
  return { secrets, lacks: false, door: await openDoor(context, secrets) };
}

/** What the processes of an agent that is taken over get. It goes on also when its secrets cannot be had any more. */
export async function giveAgain(context: AgentContext, signal: AbortSignal): Promise<Given> {
  const { site, control } = context;
  try {
    return await give(context, signal);
  } catch (error) {
    site.log.event("agent.no_secrets", { lease: control.lease, error: messageOf(error) });
    return { secrets: {}, lacks: true, door: await openDoor(context, {}) };
  }
}

/** A door that leads nowhere, for an agent whose lease is lost. */
export async function giveNothing({ job, place, messages }: AgentContext): Promise<Given> {
  const lacks = Object.keys(job.secrets).length > 0;
  return { secrets: {}, lacks, door: await plainDoor(place, ["sublet"], await messages.script()) };
}

async function openDoor(
  context: AgentContext,
  secrets: Given["secrets"],
): Promise<Given["door"]> {
  const { site, job, place, control, messages } = context;
  const aliases = isPiloops(job) ? ["piloop"] : [];
  const script = await messages.script();
  if (site.relay === undefined) return await plainDoor(place, ["sublet", ...aliases], script);
  return await site.relay.open({
    lease: control.lease,
    agent: job.agent_session,
    directory: place.own("door"),
    aliases,
    messages: script,
    hide: (text) => site.redaction?.text(Object.values(secrets), text) ?? text,
  });
}
