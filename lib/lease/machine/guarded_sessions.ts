/** @module Session files for a caller that is not trusted: what it reads are sessions, and what it restores is its own. */

import { SubletError } from "../../home/mod.ts";
import type { SessionFile, SessionFiles, SessionPattern } from "../../job/mod.ts";

const SESSION = /\.(jsonl?|log|md|txt)$/;

/** `SessionFiles` that refuses what is no session, and sources outside of the home. */
export class GuardedSessions implements SessionFiles {
  /** `home`: without links in its path. */
  constructor(private readonly files: SessionFiles, private readonly home: string) {}

  async find(pattern: SessionPattern): Promise<SessionFile | null> {
    this.#judge(pattern);
    return await this.files.find(pattern);
  }

  async read(path: string, from: number, max: number) {
    return await this.files.read(path, from, max);
  }

  async restore(pattern: SessionPattern, name: string, source: string): Promise<void> {
    this.#judge(pattern);
    const real = await Deno.realPath(source).catch(() => null);
    if (real === null || real !== source || !real.startsWith(`${this.home}/`)) {
      throw new SubletError("unsafe_path", `${source} is not beneath the worker's home`);
    }
    if (!SESSION.test(name)) throw notSession(name);
    await this.files.restore(pattern, name, source);
  }

  #judge({ file }: SessionPattern): void {
    if (!SESSION.test(file)) throw notSession(file);
  }
}

function notSession(name: string): SubletError {
  return new SubletError(
    "permission_denied",
    `${JSON.stringify(name)} is refused: session files end in .jsonl, .json, .log, .md or .txt`,
  );
}
