/** @module The command line's door. */

export { main } from "./program.ts";
