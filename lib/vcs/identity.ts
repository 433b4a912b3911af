/** @module Which project a repository is, by the address of its remote: the same for each clone of it. */

const DEFAULT_PORTS: Readonly<Record<string, string>> = {
  "git:": "9418",
  "http:": "80",
  "https:": "443",
  "ssh:": "22",
};

function clean(host: string, path: string): string {
  const name = path.replace(/^\/+/, "").replace(/\/+$/, "").replace(/\.git$/, "").replace(
    /\/+$/,
    "",
  );
  return `${host.toLowerCase()}/${name}`;
}

/** `host[:port]/owner/name` of a remote's address, or null when it is a path of this machine. */
export function identityOf(address: string): string | null {
  const scheme = /^([a-z][a-z0-9+.-]*):\/\/(?:[^@/]*@)?(\[[^\]]+\]|[^:/]*)(?::(\d+))?(\/.*)?$/i
    .exec(
      address,
    );
  if (scheme !== null) {
    const [, protocol = "", host = "", port, path = ""] = scheme;
    const kind = `${protocol.toLowerCase().replace(/^git\+/, "")}:`;
    if (kind === "file:" || host === "") return null;
    const shown = port === undefined || DEFAULT_PORTS[kind] === port ? host : `${host}:${port}`;
    return clean(shown, path);
  }
  // The short form of ssh: [user@]host:path. A colon after a slash, or after a drive letter, is part of a path.
  const short = /^(?:[^@/:]+@)?(\[[^\]]+\]|[^:/]{2,}):(.+)$/.exec(address);
  return short === null ? null : clean(short[1] ?? "", short[2] ?? "");
}
