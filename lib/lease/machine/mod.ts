/** @module The door of `lib/lease/machine`: the parts of a worker that touch the machine. */

export { systemProcesses, type SystemProcessesOptions } from "./processes.ts";
export { baseEnv, TAG as PROCESS_TAG } from "./job_env.ts";
export { FileSpool } from "./spool_files.ts";
export { hostSampler } from "./host_sample.ts";
export { runSupervisedWorker, type SupervisedWorkerOptions } from "./supervisor.ts";
export { type InProcessOptions, type InProcessWorker, inProcessWorker } from "./in_process.ts";
