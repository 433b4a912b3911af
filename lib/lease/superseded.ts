/** @module The refusal of a process whose name another one has. */

import { SubletError } from "../home/mod.ts";

/** Another process has the name of this worker. */
export class Superseded extends SubletError {
  /**
   * `seconds`: when the name is free, unless the other process is heard again until then. Null: it is not to be waited
   * for, or nobody said.
   */
  constructor(message: string, readonly seconds: number | null = null) {
    super("superseded", message);
  }
}
