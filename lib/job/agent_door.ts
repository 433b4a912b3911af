/** @module The door of an agent without a relay: it hands out messages, and says that there is nothing more. */

import { mkdirBeneath } from "../home/mod.ts";
import { shellWord } from "./agent_messages.ts";
import type { Door } from "./agent_ports.ts";
import type { AgentPlace } from "./agent_place.ts";

/** The directory of the programs of an agent, among what is the worker's alone. */
const BIN = "bin";

/** A door whose program, under each of `names`, runs `script` for `agent messages` and refuses everything else. */
export async function plainDoor(
  place: AgentPlace,
  names: readonly string[],
  script: string,
): Promise<Door> {
  const text = `#!/bin/sh
if [ "$1 $2" = "agent messages" ]; then
  shift 2
  exec ${shellWord(script)} "$@"
fi
echo "$\{0##*/}: this agent's commands do not reach its server: only 'agent messages' works here" >&2
exit 8
`;
  mkdirBeneath(place.home, `${place.relative}/.run/${BIN}`, { what: "programs of the agent" });
  for (const name of names) await place.write(`${BIN}/${name}`, text, { mode: 0o700 });
  return {
    program: place.own(`${BIN}/${names[0] ?? "sublet"}`),
    env: {},
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}
