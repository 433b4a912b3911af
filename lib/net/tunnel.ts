/** @module Connections through a proxy: a tunnel (`CONNECT`, RFC 9110, section 9.3.6), and TLS in it. */

import { Buffer } from "node:buffer";
import { connect, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { SubletError } from "../home/mod.ts";

/** The most bytes of a proxy's answer. */
const MAX_HEAD = 16 * 1024;

/** A tunnel through a proxy. */
export interface TunnelOptions {
  /** `http://[USER:PASSWORD@]HOST:PORT`, or https. */
  readonly proxy: URL;
  /** Where to. */
  readonly target: URL;
  /** PEM text of every root to trust. Default: the usual ones. */
  readonly ca: string | undefined;
  readonly timeoutMs: number;
}

/** A connection to the target, with TLS when its URL says so. */
export async function openTunnel(options: TunnelOptions): Promise<Socket> {
  const { proxy, target, ca, timeoutMs } = options;
  const sockets: Socket[] = [];
  const expired = Promise.withResolvers<never>();
  const timer = setTimeout(() => {
    expired.reject(new Error(`no way through the proxy came about within ${timeoutMs / 1000} s`));
  }, timeoutMs);
  const inTime = <T>(work: Promise<T>) => Promise.race([work, expired.promise]);
  const keep = (socket: Socket) => {
    sockets.push(socket);
    // Whoever waits for it hears of its errors; later ones are its last owner's.
    return socket.on("error", () => {});
  };
  try {
    let socket = keep(connect({ host: bare(proxy.hostname), port: portOf(proxy) }));
    await inTime(ready(socket, "connect"));
    socket.setNoDelay(true).setKeepAlive(true, 60_000);
    if (proxy.protocol === "https:") {
      socket = keep(secured(socket, proxy, ca));
      await inTime(ready(socket, "secureConnect"));
    }
    await inTime(tunnel(socket, proxy, target));
    if (target.protocol !== "https:") return socket;
    const secure = keep(secured(socket, target, ca));
    await inTime(ready(secure, "secureConnect"));
    return secure;
  } catch (error) {
    for (const socket of sockets) socket.destroy();
    throw error;
  } finally {
    clearTimeout(timer);
  }
}

function bare(host: string): string {
  return host.replace(/^\[(.*)\]$/, "$1");
}

function portOf(url: URL): number {
  return Number(url.port || (url.protocol === "https:" ? 443 : 80));
}

/** Wait until `socket` emits `event`. */
async function ready(socket: Socket, event: "connect" | "secureConnect"): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const closed = () => reject(new Error("the proxy closed the connection"));
    socket.once("error", reject);
    socket.once("close", closed);
    socket.once(event, () => {
      socket.off("error", reject);
      socket.off("close", closed);
      resolve();
    });
  });
}

function secured(socket: Socket, to: URL, ca: string | undefined): Socket {
  return connectTls({
    socket,
    servername: bare(to.hostname),
    ALPNProtocols: ["http/1.1"],
    ...(ca === undefined ? {} : { ca }),
  });
}

/** Ask the proxy for a tunnel. Throws `unreachable` with its answer when it refuses. */
async function tunnel(socket: Socket, proxy: URL, target: URL): Promise<void> {
  const host = `${target.hostname}:${portOf(target)}`;
  const user = `${decodeURIComponent(proxy.username)}:${decodeURIComponent(proxy.password)}`;
  const authorization = proxy.username === ""
    ? ""
    : `proxy-authorization: Basic ${Buffer.from(user).toString("base64")}\r\n`;
  socket.write(`CONNECT ${host} HTTP/1.1\r\nhost: ${host}\r\n${authorization}\r\n`);
  const status = await answerOf(socket);
  if (/^HTTP\/1\.[01] 2\d\d\b/.test(status)) return;
  throw new SubletError(
    "unreachable",
    `the proxy ${proxy.host} opens no way to ${host}: it answered ${status}. Check HTTPS_PROXY, its user and password`,
  );
}

/** The first line of the proxy's answer. */
async function answerOf(socket: Socket): Promise<string> {
  let head = "";
  return await new Promise<string>((resolve, reject) => {
    const ended = () => settle(() => reject(new Error("the proxy closed the connection")));
    const failed = (error: Error) => settle(() => reject(error));
    const take = (bytes: Uint8Array) => {
      head += Buffer.from(bytes).toString("latin1");
      // What a server says before it is asked is no answer of a proxy's.
      if (head.includes("\r\n\r\n")) settle(() => resolve(head.slice(0, head.indexOf("\r\n"))));
      else if (head.length > MAX_HEAD) failed(new Error("the proxy's answer has no end"));
    };
    function settle(done: () => void) {
      socket.off("data", take).off("error", failed).off("close", ended);
      socket.pause();
      done();
    }
    socket.on("data", take).on("error", failed).on("close", ended);
  });
}
