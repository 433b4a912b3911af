/** @module The network between the workers and the server: it loses, delays, doubles and reorders what it carries. */

import { SubletError } from "../../lib/home/mod.ts";
import type { HttpClient, HttpRequest, HttpResponse } from "../../lib/net/mod.ts";
import type { Process } from "./machine.ts";
import type { Random } from "./random.ts";
import type { World } from "./world.ts";

/** What the server gets. */
export interface Delivery {
  /** The name that the credential stands for. */
  readonly worker: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array<ArrayBuffer>;
  /** Whether it came over the server's own Unix socket. */
  readonly unix: boolean;
  /** Aborts when the caller hung up. */
  readonly signal: AbortSignal;
}

/** An answer as bytes, or null: the connection was refused or reset. */
export type Reply =
  | { readonly status: number; readonly headers: Headers; readonly body: Uint8Array }
  | null;

/** How bad it is. */
export interface Weather {
  lost: number;
  answerLost: number;
  doubled: number;
  /** Chance that a message takes much longer. */
  slow: number;
  /** Chance that something in between answers with a page of its own. */
  noise: number;
}

/** Nothing is lost. */
export const CALM: Weather = { lost: 0, answerLost: 0, doubled: 0, slow: 0, noise: 0 };

/** The network. */
export class Network {
  weather: Weather = { ...CALM };
  /** Machines that cannot be heard by the server, and that cannot hear it. */
  readonly mute = new Set<string>();
  readonly deaf = new Set<string>();
  /** Machines that cannot be heard after their next register, whose answer takes so many milliseconds. */
  readonly lateRegister = new Map<string, number>();
  /** Sees every answer that a process gets. */
  onAnswer: (process: Process, call: string, reply: NonNullable<Reply>) => void = () => {};
  /** Where requests go. */
  deliver: (delivery: Delivery, reply: (reply: Reply) => void) => void = (_, reply) => reply(null);

  constructor(readonly world: World, readonly random: Random) {}

  /** `unix`: it dials the server's Unix socket, where nothing is lost but with the server. */
  client(process: Process, worker: string, unix = false): HttpClient {
    return new SimClient(this, process, worker, unix);
  }

  delay(unix: boolean): number {
    const { random } = this;
    if (unix) return random.between(0.1, 3);
    if (random.chance(this.weather.slow)) return random.between(1_000, 40_000);
    return random.between(0.5, 60);
  }
}

class SimClient implements HttpClient {
  readonly url = "https://server";
  readonly #network: Network;
  readonly #process: Process;
  readonly #worker: string;
  readonly #unix: boolean;

  constructor(network: Network, process: Process, worker: string, unix: boolean) {
    this.#network = network;
    this.#process = process;
    this.#worker = worker;
    this.#unix = unix;
  }

  request(request: HttpRequest): Promise<HttpResponse> {
    return new Promise((resolve, reject) => {
      const process = this.#process;
      const { world } = this.#network;
      const call = request.path.split("/").at(-1) ?? "";
      process.await(`before ${call}`);
      if (!process.alive) return;
      let over = false;
      const hangUp = new AbortController();
      const end = (then: () => void) => {
        if (over) return;
        over = true;
        cancel();
        request.signal?.removeEventListener("abort", aborted);
        if (process.alive) then();
      };
      const fail = (why: string) => {
        end(() => reject(new SubletError("unreachable", why)));
        world.at(world.now + this.#network.delay(this.#unix), () => hangUp.abort());
      };
      const aborted = () => fail("the caller hung up");
      const cancel = process.clock.after(request.timeoutMs ?? 30_000, () => fail("no answer"));
      request.signal?.addEventListener("abort", aborted);
      this.#send(request, call, hangUp.signal, (reply) =>
        process.machine.awake(() => {
          if (over || !process.alive) return;
          process.await(`after ${call}`);
          if (!process.alive) return;
          if (reply === null) fail("the connection was reset");
          else {
            end(() => {
              this.#network.onAnswer(process, call, reply);
              resolve(responseOf(reply));
            });
          }
        }));
    });
  }

  #send(
    request: HttpRequest,
    call: string,
    signal: AbortSignal,
    answer: (reply: Reply) => void,
  ): void {
    const { world, random, mute, deaf } = this.#network;
    const unix = this.#unix;
    const weather = unix ? CALM : this.#network.weather;
    const name = unix ? "serve" : this.#process.machine.name;
    const body = request.body instanceof Uint8Array ? request.body.slice() : new Uint8Array();
    const copies = random.chance(weather.doubled) ? 2 : 1;
    if (random.chance(weather.noise)) {
      const status = random.pick([403, 404, 413, 502, 302, 200]);
      world.note(`net ${name} ${call}: ${status} by a proxy`);
      const page = new TextEncoder().encode("<html>what now</html>");
      const headers = new Headers({ "content-type": "text/html" });
      return void world.at(
        world.now + this.#network.delay(unix),
        () => answer({ status, headers, body: page }),
      );
    }
    for (let copy = 0; copy < copies; copy++) {
      if (random.chance(weather.lost)) {
        world.note(`net ${name} ${call}: lost`);
        continue;
      }
      world.at(world.now + this.#network.delay(unix), () => {
        if (mute.has(name)) return;
        world.note(`net ${name} > ${call}`);
        const headers = request.headers ?? {};
        const late = call === "register" ? this.#network.lateRegister.get(name) : undefined;
        if (late !== undefined) mute.add(name);
        this.#network.deliver(
          { worker: this.#worker, path: request.path, headers, body, unix, signal },
          (reply) => {
            if (reply !== null && random.chance(weather.answerLost)) {
              return world.note(`net ${name} ${call}: answer lost`);
            }
            world.at(world.now + (late ?? this.#network.delay(unix)), () => {
              if (deaf.has(name)) return;
              world.note(`net ${name} < ${call} ${reply?.status ?? "reset"}`);
              answer(reply);
            });
          },
        );
      });
    }
  }

  [Symbol.dispose](): void {}
}

function responseOf({ status, headers, body }: NonNullable<Reply>): HttpResponse {
  const bytes = new Uint8Array(body);
  return {
    status,
    headers,
    bytes: () => Promise.resolve(bytes),
    stream: () => chunksOf(bytes),
    discard: () => Promise.resolve(),
  };
}

/** A body that is there already: its reader only iterates, and a real stream would cost much of the simulation's time. */
function chunksOf(bytes: Uint8Array<ArrayBuffer>): ReadableStream<Uint8Array> {
  async function* chunks() {
    if (bytes.length > 0) yield await Promise.resolve(bytes);
  }
  return chunks() as unknown as ReadableStream<Uint8Array>;
}
