/** @module Door of lib/vcs: the version control contract, and the `git` provider. */

export type * from "./contract.ts";
export { checkVcs, type VcsCheckOptions } from "./check.ts";
export {
  type FirstTransfer,
  type FirstTransferStore,
  memoryTransfers,
  Transfers,
  type TransfersPorts,
} from "./first_transfer.ts";
export { gitTable, GitVcs } from "./git.ts";
export { type Exec, GIT_ENV, GitFailure, LEADING } from "./git_call.ts";
export { foreignGitCall, gitPaths } from "./git_guard.ts";
export type { VcsPorts } from "./repository.ts";
