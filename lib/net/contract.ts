/** @module The network contract: who a caller is, what it may do, and how a machine dials the server. */

/** What a caller may do. `read` < `act` < `admin`; `worker` is apart: lease routes and the CAS, and nothing else. */
export type Access = "read" | "act" | "admin" | "worker";

/** Who sends a request. */
export interface Caller {
  /** The token's name, or `owner` on the home's Unix socket. */
  readonly name: string;
  readonly access: Access;
  /** The pool that the caller's token is limited to. Null: any. */
  readonly pool: string | null;
}

/** Why a request has no caller: it gets 401 with this text. */
export interface Refused {
  readonly refused: string;
}

/** Where a request came in. */
export interface Peer {
  /** Remote address, or null on the Unix socket. */
  readonly address: string | null;
  readonly unix: boolean;
}

/** The server's side of a network. */
export interface Network {
  /** Whether tokens (`slt_…`) are admitted on its listener. The Unix socket always verifies them. */
  readonly takesTokens: boolean;
  /** Who sends a request without a token of ours; header names are lower case. */
  identify(headers: Headers, peer: Peer): Caller | Refused;
}

/** Says who calls; `Authenticator` does. */
export interface Who {
  /** The caller, when that is known at once; else null. */
  known(headers: Headers, peer: Peer): Caller | null;
  /** The caller. Throws `unauthenticated`. */
  identify(headers: Headers, peer: Peer): Promise<Caller>;
}

/** A request of {@linkcode HttpClient}. */
export interface HttpRequest {
  readonly method: string;
  /** Path and query, such as `/v1/cas/bafk…`. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Bytes, or a stream whose exact `length` is known (sent as Content-Length, never chunked). */
  readonly body?: Uint8Array | {
    readonly stream: ReadableStream<Uint8Array>;
    readonly length: number;
  };
  readonly signal?: AbortSignal;
  /** Milliseconds until the answer's headers must be there. Default 30,000. */
  readonly timeoutMs?: number;
}

/** The answer to a {@linkcode HttpRequest}; any status is an answer. */
export interface HttpResponse {
  readonly status: number;
  readonly headers: Headers;
  /** Reads or cancels the body; one of the three must be called. */
  bytes(): Promise<Uint8Array>;
  stream(): ReadableStream<Uint8Array>;
  discard(): Promise<void>;
}

/**
 * A client of one server, over TCP, TLS or a Unix socket, that sends this machine's credential. No answer at all
 * rejects with `unreachable`, whose `cause` is the transport's error.
 */
export interface HttpClient extends Disposable {
  /** Where it dials, for messages: `https://host:port` or the socket's path. */
  readonly url: string;
  request(request: HttpRequest): Promise<HttpResponse>;
}
