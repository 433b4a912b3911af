/** @module The files of the AWS command line: `~/.aws/config` and `~/.aws/credentials`. */

import { join } from "node:path";
import { type Env, SubletError } from "../home/mod.ts";
import { fileError } from "./files.ts";
import { userHome } from "./user_home.ts";

/** The settings of one profile, by name. */
export type Profile = ReadonlyMap<string, string>;

/** Sections of `text` by name. A line that belongs to a nested section has no meaning here. */
export function parseIni(text: string): Map<string, Map<string, string>> {
  const sections = new Map<string, Map<string, string>>();
  let current = new Map<string, string>();
  for (const line of text.split(/\r?\n/)) {
    const header = /^\s*\[\s*([^\]]+?)\s*\]/.exec(line)?.[1];
    if (header !== undefined) {
      current = sections.get(header) ?? new Map();
      sections.set(header, current);
      continue;
    }
    const [, key, value = ""] = /^([A-Za-z0-9_]+)\s*=\s*(.*?)\s*$/.exec(line) ?? [];
    if (key !== undefined) current.set(key.toLowerCase(), value);
  }
  return sections;
}

/** The paths of both files. */
export function profileFiles(env: Env): { readonly config: string; readonly credentials: string } {
  const home = userHome(env);
  return {
    config: env.AWS_CONFIG_FILE ?? join(home, ".aws/config"),
    credentials: env.AWS_SHARED_CREDENTIALS_FILE ?? join(home, ".aws/credentials"),
  };
}

/** The profiles of both files. */
export class Profiles {
  readonly #sections: Map<string, Map<string, string>>;

  private constructor(sections: Map<string, Map<string, string>>) {
    this.#sections = sections;
  }

  static async read(env: Env): Promise<Profiles> {
    const files = profileFiles(env);
    const all = new Map<string, Map<string, string>>();
    const add = (name: string, section: Map<string, string>) => {
      all.set(name, new Map([...all.get(name) ?? [], ...section]));
    };
    for (const [header, section] of await sectionsOf(files.config)) {
      if (header === "default") add(header, section);
      else if (header.startsWith("profile ")) add(header.slice(8).trim(), section);
    }
    // Of what both say, that file's word counts.
    for (const [header, section] of await sectionsOf(files.credentials)) add(header, section);
    return new Profiles(all);
  }

  /** The profile that `env` names, or the default one; null when there is none. Throws `config` when a named one is lacking. */
  chosen(env: Env): Profile | null {
    const name = env.AWS_PROFILE ?? env.AWS_DEFAULT_PROFILE;
    return name === undefined || name === ""
      ? this.#sections.get("default") ?? null
      : this.named(name);
  }

  /** The profile `name`. Throws `config` when there is none. */
  named(name: string): Profile {
    const found = this.#sections.get(name);
    if (found !== undefined) return found;
    throw new SubletError(
      "config",
      `there is no AWS profile '${name}': check AWS_PROFILE, and the names in ~/.aws/config`,
    );
  }
}

async function sectionsOf(path: string): Promise<Map<string, Map<string, string>>> {
  try {
    return parseIni(await Deno.readTextFile(path));
  } catch (error) {
    if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory) {
      return new Map();
    }
    throw fileError(error, `cannot read ${path}`, "unavailable");
  }
}
