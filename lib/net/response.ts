/** @module The answer to a request over `node:http`, its body as a web stream that is read no faster than it is taken. */

import type http from "node:http";
import { messageOf, SubletError } from "../home/mod.ts";
import type { HttpResponse } from "./contract.ts";

/** More bytes than this of an unwanted body are not waited for: its connection is closed. */
const MAX_DRAIN = 64 * 1024;

/** What a {@linkcode NodeResponse} needs to know of its request. */
export interface ResponseContext {
  readonly method: string;
  /** Milliseconds without a byte, while somebody waits for one, after which the body is given up. */
  readonly idleMs: number;
  readonly signal: AbortSignal | undefined;
  /** Called once, when the body has ended, failed or was cancelled. */
  readonly done: () => void;
}

/** An answer of `node:http`. */
export class NodeResponse implements HttpResponse {
  readonly #message: http.IncomingMessage;
  readonly #context: ResponseContext;
  readonly status: number;
  readonly headers: Headers;
  #taken = false;

  constructor(message: http.IncomingMessage, context: ResponseContext) {
    this.#message = message;
    this.#context = context;
    this.status = message.statusCode ?? 0;
    this.headers = new Headers();
    for (let i = 0; i + 1 < message.rawHeaders.length; i += 2) {
      this.headers.append(message.rawHeaders[i] ?? "", message.rawHeaders[i + 1] ?? "");
    }
    // An error may come before anybody reads the body, and must not end the process.
    message.on("error", () => {});
    message.pause();
  }

  bytes(): Promise<Uint8Array> {
    return new Promise((resolve, reject) => {
      const chunks: Uint8Array[] = [];
      const { more } = this.#take({
        data: (chunk) => {
          chunks.push(chunk);
          more();
        },
        end: () => resolve(joined(chunks)),
        fail: reject,
      });
      more();
    });
  }

  async discard(): Promise<void> {
    if (this.#taken) return;
    let left = MAX_DRAIN;
    try {
      // A short body is read, since its connection can then be used again. Leaving the loop cancels a longer one.
      for await (const chunk of this.stream()) {
        left -= chunk.length;
        if (left < 0) return;
      }
    } catch {
      // Nobody wants this body.
    }
  }

  stream(): ReadableStream<Uint8Array> {
    let body: Body;
    return new ReadableStream<Uint8Array>({
      start: (controller) => {
        body = this.#take({
          data: (chunk) => {
            controller.enqueue(chunk);
            if ((controller.desiredSize ?? 0) <= 0) this.#message.pause();
          },
          end: () => controller.close(),
          fail: (error) => controller.error(error),
        });
      },
      pull: () => body.more(),
      cancel: () => body.cancel(),
    }, { highWaterMark: 1 });
  }

  #take(sink: Sink): Body {
    if (this.#taken) throw new SubletError("internal", "the body of an answer is read only once");
    this.#taken = true;
    const message = this.#message;
    const { idleMs, signal, done } = this.#context;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let ended = false;
    const finish = (then: () => void) => {
      clearTimeout(timer);
      if (ended) return;
      ended = true;
      done();
      then();
    };
    const fail = (error: unknown) =>
      finish(() => {
        message.destroy();
        sink.fail(signal?.aborted ? signal.reason : broken(error));
      });
    const cut = () => fail(new Error("the connection was closed"));
    message.on("data", (chunk: Uint8Array) => {
      clearTimeout(timer);
      if (!ended) {
        sink.data(new Uint8Array(chunk.buffer as ArrayBuffer, chunk.byteOffset, chunk.byteLength));
      }
    });
    message.on("end", () => finish(sink.end));
    message.on("error", fail);
    message.on("aborted", cut);
    message.on("close", cut);
    return {
      more() {
        clearTimeout(timer);
        timer = setTimeout(
          () => fail(new Error(`no byte came for ${idleMs / 1000} s`)),
          idleMs,
        );
        message.resume();
      },
      cancel: () => finish(() => message.destroy()),
    };
  }
}

/** Who takes a body. */
interface Sink {
  data(chunk: Uint8Array): void;
  end(): void;
  fail(error: unknown): void;
}

/** A body that is being taken. */
interface Body {
  /** Let the next bytes come, and give the body up when none does. */
  more(): void;
  cancel(): void;
}

function joined(chunks: readonly Uint8Array[]): Uint8Array {
  const [only] = chunks;
  if (chunks.length === 1 && only !== undefined) return only;
  const all = new Uint8Array(chunks.reduce((sum, chunk) => sum + chunk.length, 0));
  let at = 0;
  for (const chunk of chunks) {
    all.set(chunk, at);
    at += chunk.length;
  }
  return all;
}

function broken(error: unknown): SubletError {
  return new SubletError("unreachable", `the answer broke off: ${messageOf(error)}`, {
    cause: error,
  });
}
