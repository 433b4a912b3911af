/** @module A TCP proxy that can be cut: what a partition looks like. */

/** Forwards connections to a port on loopback until it is cut, and again once it is mended. */
export class TcpProxy implements AsyncDisposable {
  readonly #listener: Deno.TcpListener;
  readonly #target: number;
  readonly #open = new Set<Deno.TcpConn>();
  #cut = false;
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
    for (const connection of this.#open) close(connection);
    this.#open.clear();
  }

  /** Forward again: held connections are dropped, so that clients dial anew. */
  mend(): void {
    this.#cut = false;
    for (const connection of this.#open) close(connection);
    this.#open.clear();
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
      const both = [
        client.readable.pipeTo(server.writable),
        server.readable.pipeTo(client.writable),
      ];
      await Promise.allSettled(both);
      this.#open.delete(server);
      close(server);
    } catch {
      // The server is away: the client's connection ends below, as a proxy's would.
    }
    this.#open.delete(client);
    close(client);
  }

  async [Symbol.asyncDispose](): Promise<void> {
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
