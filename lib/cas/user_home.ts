/** @module Where other programs keep a user's settings. */

import { homedir } from "node:os";
import type { Env } from "../home/mod.ts";

/** The user's directory; the root where nothing tells, or where this thread may not ask. */
export function userHome(env: Env): string {
  const named = env.HOME || env.USERPROFILE;
  if (named) return named;
  try {
    return homedir();
  } catch {
    return "/";
  }
}
