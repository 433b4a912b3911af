/** @module A light HTTP/1.1 client on one raw connection, so that a benchmark measures the server rather than itself. */

const encoder = new TextEncoder();
const decoder = new TextDecoder();
const CRLF2 = [13, 10, 13, 10] as const;

/** An answer. */
export interface RawAnswer {
  readonly status: number;
  readonly body: string;
}

/** One kept connection: a request at a time. */
export class RawConnection implements Disposable {
  readonly #conn: Deno.TcpConn;
  readonly #head: string;
  readonly #buffer: Uint8Array;
  #filled = 0;

  private constructor(conn: Deno.TcpConn, head: string, bufferBytes: number) {
    this.#conn = conn;
    this.#head = head;
    this.#buffer = new Uint8Array(bufferBytes);
  }

  /** Connect; `headers` go with every request. No answer may be larger than the buffer. */
  static async open(
    host: string,
    port: number,
    headers: Readonly<Record<string, string>>,
    bufferBytes = 256 * 1024,
  ): Promise<RawConnection> {
    const conn = await Deno.connect({ hostname: host, port });
    conn.setNoDelay(true);
    const lines = Object.entries({ host: `${host}:${port}`, ...headers });
    return new RawConnection(
      conn,
      lines.map(([name, value]) => `${name}: ${value}\r\n`).join(""),
      bufferBytes,
    );
  }

  /** POST the JSON text `body` to `path`. */
  async post(path: string, body: string): Promise<RawAnswer> {
    const text = `POST ${path} HTTP/1.1\r\n${this.#head}content-type: application/json\r\n` +
      `content-length: ${encoder.encode(body).length}\r\n\r\n${body}`;
    await this.#write(encoder.encode(text));
    return await this.#read();
  }

  async #write(bytes: Uint8Array): Promise<void> {
    let sent = await this.#conn.write(bytes);
    while (sent < bytes.length) sent += await this.#conn.write(bytes.subarray(sent));
  }

  async #read(): Promise<RawAnswer> {
    let head = -1;
    while ((head = this.#headEnd()) < 0) await this.#fill();
    const text = decoder.decode(this.#buffer.subarray(0, head));
    const status = Number(text.slice(9, 12));
    const length = Number(/content-length: (\d+)/i.exec(text)?.[1] ?? 0);
    const end = head + 4 + length;
    while (this.#filled < end) await this.#fill();
    const body = decoder.decode(this.#buffer.subarray(head + 4, end));
    this.#buffer.copyWithin(0, end, this.#filled);
    this.#filled -= end;
    return { status, body };
  }

  #headEnd(): number {
    for (let at = 0; at + 3 < this.#filled; at++) {
      if (CRLF2.every((byte, index) => this.#buffer[at + index] === byte)) return at;
    }
    return -1;
  }

  async #fill(): Promise<void> {
    const count = await this.#conn.read(this.#buffer.subarray(this.#filled));
    if (count === null) throw new Error("the server closed the connection");
    this.#filled += count;
  }

  [Symbol.dispose](): void {
    this.#conn.close();
  }
}
