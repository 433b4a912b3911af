/** @module Cloning a repository from another machine: the one call of ours that git may use the network for. */

import { type Ids, SubletError } from "../home/mod.ts";
import type { Git } from "./git_call.ts";
import { removeTree, somethingAt } from "./remove_tree.ts";

const SCHEMES = new Set(["https:", "http:", "ssh:", "git:"]);

function refuse(reason: string): never {
  throw new SubletError(
    "invalid_request",
    `that address cannot be cloned: ${reason}. Give https://…, ssh://…, git://…, user@host:path or an absolute path`,
  );
}

/** `url`, and what it is, when git may be handed it. Helpers (`ext::…`) and options are none. */
function judgeUrl(url: string): { readonly url: string; readonly parsed: URL | null } {
  // deno-lint-ignore no-control-regex -- a line break would be a second line of a file that git reads
  if (/[\u0000-\u0020\u007f]/.test(url)) refuse("it holds a blank or a control character");
  if (url.startsWith("-")) refuse("it starts with a dash");
  if (/^[A-Za-z0-9+.-]+::/.test(url)) refuse("it names a helper program");
  if (url.startsWith("/")) return { url, parsed: null };
  const parsed = URL.canParse(url) ? new URL(url) : null;
  if (parsed !== null && SCHEMES.has(parsed.protocol)) {
    if (parsed.password !== "") refuse("it holds a password. Give that as the credential");
    if (/^-/.test(parsed.hostname)) refuse("its host starts with a dash");
    return { url, parsed };
  }
  if (/^[A-Za-z0-9_][A-Za-z0-9._-]*@[A-Za-z0-9[][A-Za-z0-9.:\]-]*:(?!-)./.test(url)) {
    return { url, parsed: null };
  }
  return refuse("its scheme is none of those");
}

/** The file for git's `store` helper: one line, for the host of `url` alone. */
function storedCredential(url: URL, credential: string): string {
  const colon = credential.indexOf(":");
  const user = colon < 0 ? "x-access-token" : credential.slice(0, colon);
  const password = colon < 0 ? credential : credential.slice(colon + 1);
  return `${url.protocol}//${encodeURIComponent(user)}:${
    encodeURIComponent(password)
  }@${url.host}\n`;
}

/** Clone `url` to `path`, where nothing is yet: beside it first, so it is there in full or not at all. */
export async function cloneRepository(
  git: Git,
  ids: Ids,
  address: string,
  path: string,
  credential: string | null,
): Promise<void> {
  const { url, parsed } = judgeUrl(address);
  const web = parsed !== null && (parsed.protocol === "https:" || parsed.protocol === "http:");
  if (credential !== null && !web) {
    throw new SubletError("invalid_request", "a credential is for http and https addresses alone");
  }
  if (await somethingAt(path)) {
    throw new SubletError("conflict", `${path} is there already. Clone to a path that is free`);
  }
  const parent = path.slice(0, path.lastIndexOf("/")) || "/";
  await Deno.mkdir(parent, { recursive: true });
  const made = `${path}.cloning-${ids.uuid()}`;
  const secret = `${made}.credential`;
  const helper = `store --file='${secret.replaceAll("'", "'\\''")}'`;
  try {
    if (credential !== null && parsed !== null) {
      await Deno.writeTextFile(secret, storedCredential(parsed, credential), {
        createNew: true,
        mode: 0o600,
      });
    }
    await git.run({
      cwd: parent,
      settings: [
        "protocol.allow=never",
        ...["https", "http", "ssh", "git", "file"].map((name) => `protocol.${name}.allow=always`),
        "core.sshCommand=ssh -oBatchMode=yes",
        "core.askPass=",
        "credential.helper=",
        ...(credential === null ? [] : [`credential.helper=${helper}`]),
        "transfer.fsckObjects=true",
      ],
      args: ["clone", "--quiet", "--template=", "--no-hardlinks", "--end-of-options", url, made],
    });
    await Deno.rename(made, path);
  } finally {
    await Deno.remove(secret).catch(() => {});
    await removeTree(made, ids);
  }
}
