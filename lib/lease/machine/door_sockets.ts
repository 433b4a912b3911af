/**
 * @module The paths of the sockets that doors of agents listen on. A thread's permission to listen names each path, so they
 * are known before the thread is made.
 */

/** As many agents of one worker can have a door at once. */
const DOORS = 64;
/** What the path of a socket holds on every system that we run on, bytes. */
const MAX_PATH = 100;

/** The directory of the sockets, beneath the home. */
export const DOORS_DIRECTORY = "relay";

/** The sockets of the worker `key` in `home`; none where the home's path is too long for one. */
export function doorSockets(home: string, key: string): string[] {
  const paths = Array.from(
    { length: DOORS },
    (_, n) => `${home}/${DOORS_DIRECTORY}/${key.slice(0, 8)}-${n}`,
  );
  const longest = paths.at(-1) ?? "";
  return new TextEncoder().encode(longest).length <= MAX_PATH ? paths : [];
}
