/**
 * @module The door of `lib/lease/machine`: the parts of a worker that touch the machine. What runs jobs is loaded once a
 * worker starts, and never by a supervisor's main thread.
 */

export { systemProcesses, type SystemProcessesOptions } from "./processes.ts";
export { baseEnv, TAG as PROCESS_TAG } from "./job_env.ts";
export { hostSampler } from "./host_sample.ts";
export { runSupervisedWorker, type SupervisedWorkerOptions } from "./supervisor.ts";
export { type InProcessOptions, type InProcessWorker, inProcessWorker } from "./in_process.ts";
