/** @module One request and its answer over `node:http`: deadlines, cancelling, an exact length, a second try. */

import type http from "node:http";
import { SubletError } from "../home/mod.ts";
import type { HttpRequest, HttpResponse } from "./contract.ts";
import { NodeResponse } from "./response.ts";
import type { Transport } from "./transport.ts";
import { unreachable } from "./unreachable.ts";

/** Send `request` and wait for the answer's headers. */
export async function exchange(
  transport: Transport,
  request: HttpRequest,
  timeoutMs: number,
): Promise<HttpResponse> {
  for (let first = true;; first = false) {
    const attempt = new Attempt(transport, request, timeoutMs);
    try {
      return await attempt.answer;
    } catch (error) {
      if (request.signal?.aborted) throw request.signal.reason;
      if (first && attempt.wasStale(error)) continue;
      throw await unreachable(transport, error);
    }
  }
}

class Attempt {
  readonly #request: HttpRequest;
  readonly #timeoutMs: number;
  readonly #sent: http.ClientRequest;
  readonly answer: Promise<HttpResponse>;
  #bodySent = false;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(transport: Transport, request: HttpRequest, timeoutMs: number) {
    this.#request = request;
    this.#timeoutMs = timeoutMs;
    this.#sent = transport.request({
      method: request.method,
      path: request.path,
      headers: headersOf(request),
    });
    this.answer = this.#listen();
    this.#send();
  }

  /**
   * Whether a connection that had been idle was closed by the server just as it was used again: nothing of the request
   * was looked at, so it may be sent once more. A stream cannot be: a part of it may be gone.
   */
  wasStale(error: unknown): boolean {
    const code = error instanceof Error && "code" in error ? error.code : undefined;
    const body = this.#request.body;
    return this.#sent.reusedSocket && (code === "ECONNRESET" || code === "EPIPE") &&
      (body === undefined || body instanceof Uint8Array);
  }

  #listen(): Promise<HttpResponse> {
    const { signal, method } = this.#request;
    return new Promise((resolve, reject) => {
      const abort = () => this.#fail(signal?.reason);
      const settled = () => {
        clearTimeout(this.#timer);
        this.#timer = undefined;
      };
      signal?.addEventListener("abort", abort, { once: true });
      this.#sent.on("response", (message) => {
        settled();
        const done = () => {
          signal?.removeEventListener("abort", abort);
          // The server answered before it had read everything: the rest is of no use to it.
          if (!this.#bodySent) this.#sent.destroy();
        };
        resolve(new NodeResponse(message, { method, idleMs: this.#timeoutMs, signal, done }));
      });
      this.#sent.on("error", (error) => {
        settled();
        signal?.removeEventListener("abort", abort);
        // After an answer this goes nowhere: its body has an error of its own.
        reject(error);
      });
      this.#wait();
    });
  }

  /** Start the deadline, or start it anew. */
  #wait(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#fail(
        new SubletError(
          "unreachable",
          `no answer to ${this.#request.method} ${this.#request.path} within ${
            this.#timeoutMs / 1000
          } s`,
        ),
      );
    }, this.#timeoutMs);
  }

  #fail(reason: unknown): void {
    this.#sent.destroy(reason instanceof Error ? reason : new Error(String(reason)));
  }

  #send(): void {
    const { body } = this.#request;
    if (body === undefined || body instanceof Uint8Array) {
      this.#bodySent = true;
      if (body === undefined) this.#sent.end();
      else this.#sent.end(body);
      return;
    }
    this.#pump(body.stream, body.length).then(
      () => this.#bodySent = true,
      (error) => this.#fail(error),
    );
  }

  async #pump(stream: ReadableStream<Uint8Array>, length: number): Promise<void> {
    let left = length;
    for await (const chunk of stream) {
      left -= chunk.length;
      if (left < 0) throw lengthError(length, "more");
      if (this.#sent.destroyed) return;
      if (chunk.length > 0 && !this.#sent.write(chunk)) await this.#drained();
      if (this.#timer !== undefined) this.#wait();
    }
    if (left > 0) throw lengthError(length, "fewer");
    this.#sent.end();
  }

  #drained(): Promise<void> {
    return new Promise((resolve) => {
      const go = () => {
        this.#sent.off("drain", go);
        this.#sent.off("close", go);
        resolve();
      };
      this.#sent.on("drain", go);
      this.#sent.on("close", go);
    });
  }
}

function headersOf({ headers, body }: HttpRequest): Record<string, string> {
  if (body === undefined) return { ...headers };
  return { ...headers, "content-length": String(body.length) };
}

function lengthError(length: number, what: string): SubletError {
  return new SubletError(
    "invalid_request",
    `the stream held ${what} than the ${length} bytes that were announced`,
  );
}
