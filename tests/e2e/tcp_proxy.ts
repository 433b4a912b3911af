/** @module A TCP proxy that can be cut, stalled and shaken: what a partition and a bad network look like. */

/** Forwards connections to a port on loopback until it is cut or stalled, and again once it is mended. */
export class TcpProxy implements AsyncDisposable {
  readonly #listener: Deno.TcpListener;
  readonly #target: number;
  readonly #open = new Set<Deno.TcpConn>();
  #cut = false;
  /** Resolves when bytes may flow again. */
  #flow: { promise: Promise<void>; resolve: () => void } | null = null;
  readonly #accepting: Promise<void>;

  constructor(target: number) {
    this.#target = target;
    this.#listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    this.#accepting = this.#accept();
  }

  get url(): string {
    return `http://127.0.0.1:${this.#listener.addr.port}`;
  }

  /** Drop every connection, and hold new ones without a byte, as a black hole does. */
  cut(): void {
    this.#cut = true;
    this.drop();
  }

  /** Keep every connection, and let no byte through, until it is mended: then what was held comes late. */
  stall(): void {
    this.#flow ??= Promise.withResolvers<void>();
  }

  /** Drop every connection, whatever it is in the middle of; new ones are forwarded. */
  drop(): void {
    for (const connection of this.#open) close(connection);
    this.#open.clear();
  }

  /** Forward again. Connections that were held by a cut are dropped, so that clients dial anew. */
  mend(): void {
    this.#flow?.resolve();
    this.#flow = null;
    if (this.#cut) this.drop();
    this.#cut = false;
  }

  async #accept(): Promise<void> {
    for await (const client of this.#listener) {
      this.#open.add(client);
      if (!this.#cut) this.#forward(client);
    }
  }

  async #forward(client: Deno.TcpConn): Promise<void> {
    try {
      const server = await Deno.connect({ hostname: "127.0.0.1", port: this.#target });
      this.#open.add(server);
      await Promise.allSettled([this.#pump(client, server), this.#pump(server, client)]);
      this.#open.delete(server);
      close(server);
    } catch {
      // The server is away: the client's connection ends below, as a proxy's would.
    }
    this.#open.delete(client);
    close(client);
  }

  async #pump(from: Deno.TcpConn, to: Deno.TcpConn): Promise<void> {
    const bytes = new Uint8Array(64 * 1024);
    while (true) {
      const count = await from.read(bytes);
      await this.#flow?.promise;
      if (count === null) break;
      for (let sent = 0; sent < count;) sent += await to.write(bytes.subarray(sent, count));
    }
    await to.closeWrite();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.mend();
    this.cut();
    this.#listener.close();
    await this.#accepting;
  }
}

function close(connection: Deno.TcpConn): void {
  try {
    connection.close();
  } catch {
    // Closed already by the other side's end.
  }
}
