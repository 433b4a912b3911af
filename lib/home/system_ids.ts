/** @module Unpredictable values from the machine. */

import type { Ids } from "./ports.ts";

/** Ids and jitter as the machine makes them. */
export const systemIds: Ids = {
  uuid: () => crypto.randomUUID(),
  random: () => Math.random(),
};
