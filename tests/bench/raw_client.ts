/**
 * @module A load generator that costs little, since it shares the machine with the server: requests made by hand on
 * kept connections, answers of a known length counted rather than parsed.
 */

const decoder = new TextDecoder("latin1");

/** The answer to a first request: its status, and how many bytes it has. */
export interface FirstAnswer {
  readonly status: number;
  /** Bytes of headers. */
  readonly head: number;
  /** Bytes of body, as announced. */
  readonly body: number;
}

/** One connection. */
export class RawConnection implements Disposable {
  readonly #buffer = new Uint8Array(256 * 1024);

  private constructor(readonly connection: Deno.TcpConn) {}

  static async open(port: number): Promise<RawConnection> {
    const connection = await Deno.connect({ hostname: "127.0.0.1", port });
    connection.setNoDelay();
    return new RawConnection(connection);
  }

  async send(bytes: Uint8Array): Promise<void> {
    for (let at = 0; at < bytes.length;) at += await this.connection.write(bytes.subarray(at));
  }

  /** Read an answer and its body. `onBody` is told when the body's first byte is there. */
  async answer(isHead = false, onBody?: () => void): Promise<FirstAnswer> {
    let text = "";
    while (!text.includes("\r\n\r\n")) text += decoder.decode(await this.#some());
    const head = text.indexOf("\r\n\r\n") + 4;
    const announced = Number(/content-length: (\d+)/i.exec(text.slice(0, head))?.[1] ?? 0);
    const body = isHead ? 0 : announced;
    if (text.length > head) onBody?.();
    let seen = text.length - head;
    while (seen < body) {
      const bytes = await this.#some();
      if (seen === 0) onBody?.();
      seen += bytes.length;
    }
    return { status: Number(text.slice(9, 12)), head, body };
  }

  /** Read an answer of exactly `length` bytes; its status. */
  async answerOf(length: number): Promise<number> {
    let status = 0;
    for (let seen = 0; seen < length;) {
      const bytes = await this.#some();
      if (seen === 0) {
        status = ((bytes[9] ?? 0) - 48) * 100 + ((bytes[10] ?? 0) - 48) * 10 + (bytes[11] ?? 0) -
          48;
      }
      seen += bytes.length;
    }
    return status;
  }

  async #some(): Promise<Uint8Array> {
    const count = await this.connection.read(this.#buffer);
    if (count === null) throw new Error("the server closed the connection");
    return this.#buffer.subarray(0, count);
  }

  [Symbol.dispose](): void {
    this.connection.close();
  }
}

/** Requests a second: each of `connections` sends one of `requests` after another, and waits for its answer. */
export async function rate(
  port: number,
  connections: number,
  requests: readonly Uint8Array[],
  status: number,
): Promise<number> {
  using stack = new DisposableStack();
  const opened: RawConnection[] = [];
  for (let i = 0; i < connections; i++) opened.push(stack.use(await RawConnection.open(port)));
  const queue = requests[Symbol.iterator]();
  const isHead = requests[0]?.[0] === "H".charCodeAt(0);
  const started = performance.now();
  await Promise.all(opened.map(async (connection) => {
    let length = 0;
    for (const request of { [Symbol.iterator]: () => ({ next: () => queue.next() }) }) {
      await connection.send(request);
      let found: number;
      if (length === 0) {
        const first = await connection.answer(isHead);
        length = first.head + first.body;
        found = first.status;
      } else {
        found = await connection.answerOf(length);
      }
      if (found !== status) throw new Error(`the server answered ${found}, not ${status}`);
    }
  }));
  return requests.length / ((performance.now() - started) / 1000);
}
