/**
 * @module A server of worker protocol 7 on a real socket, as piloop 0.3.1 answers: for every call the shape and status
 * of the protocol, or whatever a test wants instead.
 */

import { Hono } from "hono";

/** One request that arrived. */
export interface Seen {
  readonly call: string;
  readonly body: Record<string, unknown>;
  readonly headers: Headers;
}

type Reply = (seen: Seen, signal: AbortSignal) => Response | Promise<Response>;

/** A refusal of the protocol's own. */
export function refused(status: number, error: string, detail = `because of ${error}`): Response {
  return Response.json({ error, detail }, { status });
}

/** A refusal as its web framework sends one: `detail`, and no code. */
export function framework(status: number, detail: unknown, headers: HeadersInit = {}): Response {
  return Response.json({ detail }, { status, headers });
}

/** What a proxy says for itself. */
export function page(status: number): Response {
  return new Response("<html><body>try again</body></html>", {
    status,
    headers: { "content-type": "text/html" },
  });
}

export function empty(): Response {
  return new Response(null, { status: 204 });
}

/** The server. */
export class FakeExecutor implements AsyncDisposable {
  readonly seen: Seen[] = [];
  /** Answers in the place of the usual ones, by call. */
  replies: Record<string, Reply> = {};
  timing = { renew: 0.2, grace: 1, toleration: 5 };
  readonly #server: Deno.HttpServer;
  readonly #closing = new AbortController();

  /** On loopback, or on a Unix socket. */
  constructor(at: { readonly path: string } | null = null) {
    const app = new Hono();
    app.post("/v1/executor/:call", async (context) => {
      const call = context.req.param("call");
      const seen = { call, body: await context.req.json(), headers: context.req.raw.headers };
      this.seen.push(seen);
      return await (this.replies[call] ?? this.#usual(call))(seen, this.#closing.signal);
    });
    const onListen = () => {};
    this.#server = at === null
      ? Deno.serve({ hostname: "127.0.0.1", port: 0, onListen }, app.fetch)
      : Deno.serve({ path: at.path, onListen }, app.fetch);
  }

  get url(): string {
    const { addr } = this.#server;
    return "port" in addr ? `http://127.0.0.1:${addr.port}` : "";
  }

  of(call: string): Seen[] {
    return this.seen.filter((each) => each.call === call);
  }

  #usual(call: string): Reply {
    switch (call) {
      case "register":
        return () => Response.json({ worker: "desk", timing: this.timing, held: [], cursor: 0 });
      case "acquire":
        return () => Response.json("nothing");
      case "heartbeat":
        return ({ body }) =>
          Response.json(
            Object.fromEntries(Object.keys(body["leases"] as object).map((id) => [id, "renewed"])),
          );
      case "report":
        return () => Response.json({ reported: "evaluation" });
      case "messages":
        return async (_seen, signal) => {
          if (!signal.aborted) {
            await new Promise((resolve) => signal.addEventListener("abort", resolve));
          }
          return empty();
        };
      case "started":
      case "lost":
      case "queued":
      case "send":
        return empty;
      default:
        return () => framework(404, "Not Found");
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort();
    await this.#server.shutdown();
  }
}
