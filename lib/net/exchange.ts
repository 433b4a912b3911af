/** @module One request and its answer: deadlines, cancelling, an exact length, a second try on a stale connection. */

import type { Dispatcher } from "undici";
import { SubletError } from "../home/mod.ts";
import type { HttpRequest, HttpResponse } from "./contract.ts";
import { ResponseBody } from "./response_body.ts";
import type { Transport } from "./transport.ts";
import { unreachable } from "./unreachable.ts";

/** Send `request` and wait for the answer's headers. */
export async function exchange(
  transport: Transport,
  request: HttpRequest,
  timeoutMs: number,
): Promise<HttpResponse> {
  for (let first = true;; first = false) {
    try {
      return await new Exchange(request, timeoutMs).run(transport);
    } catch (error) {
      if (request.signal?.aborted) throw request.signal.reason;
      if (first && isStale(error, request)) continue;
      throw await unreachable(transport, error);
    }
  }
}

/**
 * Whether a connection that had served requests was closed by the server just as it was used again: nothing of this
 * one was looked at, so it may be sent once more. A stream cannot be: a part of it may be gone.
 */
function isStale(error: unknown, { body }: HttpRequest): boolean {
  if (body !== undefined && !(body instanceof Uint8Array)) return false;
  if (!(error instanceof Error) || !("socket" in error)) return false;
  const socket = error.socket as { readonly bytesRead?: number } | undefined;
  return (socket?.bytesRead ?? 0) > 0;
}

class Exchange implements Dispatcher.DispatchHandler {
  readonly #request: HttpRequest;
  readonly #timeoutMs: number;
  readonly #answer = Promise.withResolvers<HttpResponse>();
  #controller: Dispatcher.DispatchController | null = null;
  #body: ResponseBody | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** Why it was given up before its answer came. */
  #given: unknown = null;

  constructor(request: HttpRequest, timeoutMs: number) {
    this.#request = request;
    this.#timeoutMs = timeoutMs;
  }

  async run(transport: Transport): Promise<HttpResponse> {
    const { method, path, headers, signal } = this.#request;
    signal?.addEventListener("abort", this.#abort);
    this.#wait();
    try {
      await transport.dispatch({
        method: method as Dispatcher.HttpMethod,
        path: transport.prefix + path,
        headers: { ...headers, ...this.#lengthHeader() },
        body: this.#bodyToSend() as Uint8Array | null,
      }, this);
      return await this.#answer.promise;
    } catch (error) {
      this.#release();
      throw this.#given ?? error;
    }
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#given !== null) controller.abort(asError(this.#given));
  }

  onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    headers: Readonly<Record<string, string | string[] | undefined>>,
  ): void {
    if (status < 200) return;
    this.#stopWaiting();
    this.#body = new ResponseBody(controller, {
      idleMs: this.#timeoutMs,
      signal: this.#request.signal,
      done: () => this.#release(),
    });
    const body = this.#body;
    this.#answer.resolve({
      status,
      headers: asHeaders(headers),
      bytes: () => body.bytes(),
      stream: () => body.stream(),
      discard: () => body.discard(),
    });
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Uint8Array): void {
    this.#body?.push(chunk);
  }

  onResponseEnd(): void {
    this.#body?.end();
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    if (this.#body === null) this.#answer.reject(error);
    else this.#body.fail(error);
  }

  readonly #abort = () => this.#giveUp(this.#request.signal?.reason);

  #giveUp(reason: unknown): void {
    this.#given = reason ?? new Error("aborted");
    this.#answer.reject(this.#given);
    this.#body?.fail(this.#given);
    this.#controller?.abort(asError(this.#given));
  }

  /** Start the deadline, or start it anew. */
  #wait(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      const { method, path } = this.#request;
      const text = `no answer to ${method} ${path} within ${this.#timeoutMs / 1000} s`;
      this.#giveUp(new SubletError("unreachable", text));
    }, this.#timeoutMs);
  }

  #stopWaiting(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #release(): void {
    this.#stopWaiting();
    this.#request.signal?.removeEventListener("abort", this.#abort);
  }

  #lengthHeader(): Record<string, string> {
    const { body } = this.#request;
    return body === undefined || body instanceof Uint8Array
      ? {}
      : { "content-length": String(body.length) };
  }

  #bodyToSend(): Uint8Array | AsyncIterable<Uint8Array> | null {
    const { body } = this.#request;
    if (body === undefined) return null;
    return body instanceof Uint8Array ? body : this.#pieces(body.stream, body.length);
  }

  async *#pieces(stream: ReadableStream<Uint8Array>, length: number): AsyncGenerator<Uint8Array> {
    let left = length;
    try {
      for await (const piece of stream) {
        left -= piece.length;
        if (left < 0) throw lengthError(length, "more");
        // As long as the server takes pieces it is not silent.
        if (this.#timer !== undefined) this.#wait();
        if (piece.length > 0) yield piece;
      }
      if (left > 0) throw lengthError(length, "fewer");
    } catch (error) {
      this.#giveUp(error);
      throw error;
    }
  }
}

function asError(reason: unknown): Error {
  return reason instanceof Error ? reason : new Error(String(reason));
}

function asHeaders(
  headers: Readonly<Record<string, string | string[] | undefined>>,
): Headers {
  const all = new Headers();
  for (const [name, values] of Object.entries(headers)) {
    for (const value of Array.isArray(values) ? values : [values ?? ""]) all.append(name, value);
  }
  return all;
}

function lengthError(length: number, what: string): SubletError {
  return new SubletError(
    "invalid_request",
    `the stream held ${what} than the ${length} bytes that were announced`,
  );
}
