/** @module Door of lib/vcs: the version control contract and the `git` provider. */

export type { Ask, Check, Repository, Sent, Supply, Vcs, Version } from "./contract.ts";
