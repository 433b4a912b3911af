/** @module The proxy through which an address outside is dialed: `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`. */

import { type Env, isLoopback, SubletError } from "../home/mod.ts";

/**
 * The proxy, `http://[USER:PASSWORD@]HOST:PORT`, for `url`, or null when it is dialed directly: none is set, `NO_PROXY`
 * names its host, or it is this machine or its cloud's metadata service. Throws `config` for a proxy that is no URL.
 */
export function proxyFor(url: URL, env: Env): string | null {
  const name = url.protocol === "https:" ? "HTTPS_PROXY" : "HTTP_PROXY";
  const value = env[name.toLowerCase()] || env[name] || env["all_proxy"] || env["ALL_PROXY"] || "";
  if (value === "" || isDirect(url, env["no_proxy"] ?? env["NO_PROXY"] ?? "")) return null;
  const proxy = value.includes("://") ? value : `http://${value}`;
  if (URL.canParse(proxy) && /^https?:$/.test(new URL(proxy).protocol)) return proxy;
  // Not with its value, which may hold a password.
  throw new SubletError("config", `${name}: must be http://HOST:PORT or https://HOST:PORT`);
}

function isDirect(url: URL, exceptions: string): boolean {
  const host = url.hostname.replace(/^\[(.*)\]$/, "$1").toLowerCase();
  if (host === "localhost" || isLoopback(host) || host.startsWith("169.254.")) return true;
  const port = url.port || (url.protocol === "https:" ? "443" : "80");
  return exceptions.split(/[\s,]+/).filter((part) => part !== "").some((part) => {
    if (part === "*") return true;
    const [, name = "", only] = /^(.*?)(?::(\d+))?$/.exec(part.toLowerCase()) ?? [];
    const suffix = name.replace(/^\*?\./, "");
    return (only === undefined || only === port) &&
      (host === suffix || host.endsWith(`.${suffix}`));
  });
}
