/**
 * @module The relay of agents' commands: a Unix socket for each job, in a directory that is the job's alone. What comes
 * over it goes to the server under that job's lease, whatever it says of itself; the server judges it.
 */

import * as z from "zod";
import {
  isError,
  type Log,
  messageOf,
  mkdirBeneath,
  removeBeneath,
  SubletError,
  writeBeneath,
} from "../../home/mod.ts";
import { type Door, type Relay, type RelayJob, shellWord } from "../../job/mod.ts";
import { neverLeft, onError, pathOf, readJson, serveHttp } from "../../net/mod.ts";
import type { CommandResult, LeaseClient } from "../client.ts";
import { DOORS_DIRECTORY } from "./door_sockets.ts";

/** The path of the one call. */
export const RELAY_PATH = "/v1/cli";
/** A command and what it reads. */
const MAX_BYTES = 1024 * 1024;
/** How long commands that still run when a door closes may take to be answered. */
const CLOSE_MS = 1_000;

const command = z.object({
  argv: z.array(z.string()).max(1_000),
  stdin: z.string().nullable().default(null),
});

/** What a relay needs. */
export interface RelayOptions {
  /** The home, without links in its path. */
  readonly home: string;
  readonly client: Pick<LeaseClient, "cli">;
  /** The paths that it may listen on: {@linkcode doorSockets}. */
  readonly sockets: readonly string[];
  /** The argv that runs this program, to which the door adds `relay`. */
  readonly self: readonly string[];
  readonly log: Log;
}

/** Opens doors. */
export class SocketRelay implements Relay {
  readonly #options: RelayOptions;
  readonly #free: string[];

  constructor(options: RelayOptions) {
    this.#options = options;
    this.#free = [...options.sockets].reverse();
  }

  async open(job: RelayJob): Promise<Door> {
    const { home } = this.#options;
    const inHome = job.directory.slice(home.length + 1);
    const what = "the door of an agent";
    const listener = await this.#listen(job);
    mkdirBeneath(home, `${inHome}/bin`, { what });
    const text = this.#script(job, listener?.socket ?? null);
    for (const name of ["sublet", ...job.aliases]) {
      await writeBeneath(home, `${inHome}/bin/${name}`, new TextEncoder().encode(text), {
        what,
        mode: 0o700,
      });
    }
    return {
      program: `${job.directory}/bin/sublet`,
      env: {},
      async [Symbol.asyncDispose]() {
        await listener?.close();
        await removeBeneath(home, inHome, { what });
      },
    };
  }

  /** The program: `agent messages` is handed out here, everything else goes through the socket. */
  #script(job: RelayJob, socket: string | null): string {
    const self = this.#options.self.map(shellWord).join(" ");
    const rest = socket === null
      ? 'echo "sublet: no command goes through from here: the log of the worker says why" >&2\nexit 8'
      : `exec ${self} relay ${shellWord(socket)} -- "$@"`;
    return `#!/bin/sh
if [ "$1 $2" = "agent messages" ]; then
  shift 2
  exec ${shellWord(job.messages)} "$@"
fi
${rest}
`;
  }

  /** Listen for `job` on a free socket. Null: there is none, and the agent goes without. */
  async #listen(
    job: RelayJob,
  ): Promise<{ socket: string; close: () => Promise<void> } | null> {
    const { home, log } = this.#options;
    const socket = this.#free.pop();
    if (socket === undefined) {
      log.event("relay.closed", {
        lease: job.lease,
        error: this.#options.sockets.length === 0
          ? `the path of the home ${home} is too long for a socket`
          : "as many agents as can have a door have one",
      });
      return null;
    }
    mkdirBeneath(home, DOORS_DIRECTORY, { what: "the doors of agents" });
    try {
      const server = await serveHttp({
        unix: socket,
        log,
        fetch: (request) => this.#answer(job, request),
      });
      const close = async () => {
        await server.shutdown(CLOSE_MS);
        this.#free.push(socket);
      };
      return { socket, close };
    } catch (error) {
      // Somebody else's file may be in the way there for good.
      log.event("relay.closed", { lease: job.lease, error: messageOf(error) });
      return null;
    }
  }

  async #answer(job: RelayJob, request: Request): Promise<Response> {
    try {
      if (request.method !== "POST" || pathOf(request.url) !== RELAY_PATH) {
        throw new SubletError("not_found", `the door of an agent has POST ${RELAY_PATH} alone`);
      }
      const { argv, stdin } = await readJson(request, command, MAX_BYTES);
      return Response.json(await this.#run(job, argv, stdin, request.signal));
    } catch (error) {
      return onError("api", this.#options.log)(
        error instanceof Error ? error : new Error(messageOf(error)),
        { req: { method: request.method, path: RELAY_PATH } },
      );
    }
  }

  /** One try: a command that may have run is not run again. */
  async #run(
    job: RelayJob,
    argv: readonly string[],
    stdin: string | null,
    signal: AbortSignal,
  ): Promise<CommandResult> {
    const { client, log } = this.#options;
    const hide = job.hide ?? ((text: string) => text);
    log.event("relay.command", { lease: job.lease, command: hide(argv.slice(0, 2).join(" ")) });
    if (client.cli === undefined) return failed("the server takes no commands of agents");
    try {
      return await client.cli(
        job.lease,
        argv.map(hide),
        stdin === null ? null : hide(stdin),
        signal,
      );
    } catch (error) {
      if (isError(error, "stale_lease")) {
        return failed(`this agent's lease is over, so the command did not run: ${error.message}`);
      }
      if (neverLeft(error)) {
        return failed(`the command did not run: ${messageOf(error)}. Try again later`);
      }
      if (isError(error, "unreachable", "unavailable")) {
        return failed(
          `the answer was lost, so the command may have run: look before you run it again. ${
            messageOf(error)
          }`,
        );
      }
      return failed(`the server refused the command: ${messageOf(error)}`);
    }
  }
}

function failed(why: string): CommandResult {
  return { stdout: "", stderr: `${why}\n`, exit_code: 1 };
}
