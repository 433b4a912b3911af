/** @module Real servers of buckets, started for a test, and what tests do with them. */

import { systemClock } from "../../lib/home/mod.ts";
import { until } from "../kit/mod.ts";

/** A server that runs until it is disposed. */
export interface BucketServer extends AsyncDisposable {
  readonly url: string;
}

/** The program that the variable `variable` names, or `names` on PATH or in the project's cache; null: none. */
export function findProgram(variable: string, ...names: string[]): string | null {
  const named = Deno.env.get(variable);
  if (named !== undefined && named !== "") return named;
  const cache = new URL("../../.cache/moto/bin", import.meta.url).pathname;
  for (const directory of [...(Deno.env.get("PATH") ?? "").split(":"), cache]) {
    for (const name of names) {
      try {
        if (Deno.statSync(`${directory}/${name}`).isFile) return `${directory}/${name}`;
      } catch {
        // Not there.
      }
    }
  }
  return null;
}

/** What a test of a server that may be missing adds to its name, and whether it runs. */
export function needs(program: string | null, how: string) {
  return { ignore: program === null, suffix: program === null ? ` (SKIPPED: ${how})` : "" };
}

/** A port that is free now. */
export function freePort(): number {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  return (listener.addr as Deno.NetAddr).port;
}

/** Start a server, and wait until it answers `path` at `url`. */
export async function startServer(
  argv: readonly string[],
  url: string,
  path: string,
  env: Record<string, string> = {},
): Promise<BucketServer> {
  const [program = "", ...args] = argv;
  const process = new Deno.Command(program, {
    args: [...args],
    env,
    stdin: "null",
    stdout: "null",
    stderr: "null",
  }).spawn();
  let ended: Deno.CommandStatus | null = null;
  const status = process.status.then((found) => ended = found);
  const stop = async () => {
    if (ended === null) process.kill("SIGKILL");
    await status;
  };
  try {
    await until(`${program} answers`, async () => {
      if (ended !== null) throw new Error(`${program} ended with ${ended.code}`);
      const answer = await fetch(url + path).catch(() => null);
      await answer?.body?.cancel();
      return answer?.ok;
    }, 60);
  } catch (error) {
    await stop();
    throw error;
  }
  return { url, [Symbol.asyncDispose]: stop };
}

/** A clock that passes two hundred times as fast while somebody sleeps. */
export function hastyClock(): typeof systemClock {
  let slept = 0;
  return {
    ...systemClock,
    monotonic: () => systemClock.monotonic() + slept,
    async sleep(ms: number, signal?: AbortSignal) {
      await systemClock.sleep(ms / 200, signal);
      slept += ms;
    },
  };
}

/** Passes connections on to the server at `url`, until it is cut. */
export class Relay implements Disposable {
  readonly #target: Deno.ConnectOptions;
  readonly #open = new Set<Deno.Conn>();
  #listener: Deno.Listener;
  readonly url: string;
  readonly #port: number;

  constructor(url: string) {
    const { hostname, port } = new URL(url);
    this.#target = { hostname, port: Number(port) };
    this.#listener = this.#listen(0);
    this.#port = (this.#listener.addr as Deno.NetAddr).port;
    this.url = `http://127.0.0.1:${this.#port}`;
  }

  #listen(port: number): Deno.TcpListener {
    const listener = Deno.listen({ hostname: "127.0.0.1", port });
    const run = async () => {
      for await (const connection of listener) this.#pass(connection).catch(() => {});
    };
    run().catch(() => {});
    return listener;
  }

  async #pass(from: Deno.Conn): Promise<void> {
    this.#open.add(from);
    const to = await Deno.connect(this.#target);
    this.#open.add(to);
    await Promise.allSettled([
      from.readable.pipeTo(to.writable),
      to.readable.pipeTo(from.writable),
    ]);
    this.#open.delete(from);
    this.#open.delete(to);
  }

  /** Nobody gets through until what is returned is disposed. */
  cut(): AsyncDisposable {
    this[Symbol.dispose]();
    return {
      [Symbol.asyncDispose]: () => {
        this.#listener = this.#listen(this.#port);
        return Promise.resolve();
      },
    };
  }

  [Symbol.dispose](): void {
    try {
      this.#listener.close();
    } catch {
      // It was cut.
    }
    for (const connection of this.#open) {
      try {
        connection.close();
      } catch {
        // It has ended.
      }
    }
    this.#open.clear();
  }
}

/** `length` random bytes. */
export function noise(length: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(length);
  for (let at = 0; at < length; at += 65_536) {
    crypto.getRandomValues(bytes.subarray(at, at + 65_536));
  }
  return bytes;
}
