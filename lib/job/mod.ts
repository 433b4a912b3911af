/** @module The door of `lib/job`: what a job is, how one runs on a site, and how its server side judges it. */

export * from "./runner.ts";
export * from "./shapes.ts";
