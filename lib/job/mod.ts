/** @module The door of `lib/job`: what a job is, how one runs on a site, and how its server side judges it. */

export * from "./runner.ts";
export * from "./shapes.ts";
export type * from "./agent_ports.ts";
export * from "./agent_shapes.ts";
export * from "./stream_shapes.ts";
export { type Harness, harnessNamed } from "./harness.ts";
export { COMMAND } from "./harness_builtin.ts";
export { BRIEF_FILE } from "./harness_start.ts";
export {
  campaignFiles,
  campaignTemplate,
  type NewFile,
  writeNewFiles,
} from "./campaign_template.ts";
export { CAMPAIGN_FILES, type CampaignFile, checkCampaign, loadCampaign } from "./campaign_file.ts";
export type { CampaignConfig, MetricConfig } from "./campaign_config.ts";
export type { Campaign } from "./campaign_store.ts";
export { lowerBound } from "./campaign_bootstrap.ts";
export { compare, type Comparison, type Verdict, VERDICTS } from "./campaign_verdict.ts";
export { EvaluationKind } from "./evaluation_kind.ts";
export { shellWord } from "./agent_messages.ts";
export { AgentKind } from "./agent_kind.ts";
export { MAX_PROMPT, type Prompted, type PromptQueue } from "./agent_prompts.ts";
export {
  type AgentRequest,
  type AgentTables,
  MAX_TIMEOUT,
  SESSION_RUNNER,
} from "./agent_request.ts";
export {
  type Agent,
  AGENT_STATES,
  agentEnded,
  type AgentFilter,
  type AgentState,
  type Landed,
  PROMPT_STATES,
} from "./agent_store.ts";
export type { AgentPrompt } from "./agent_store_prompts.ts";
export { AgentSecrets } from "./agent_secrets.ts";
export { type NamedSecret, SecretBook, type SecretOwner } from "./secret_book.ts";
export { agentTables } from "./agent_tables.ts";
export { Agents, type AgentsDeps } from "./agents.ts";
export { sessionLines } from "./session_text.ts";
export { streamOwner } from "./stream_owner.ts";
export {
  MAX_READ,
  type StreamChunk,
  Streams,
  type StreamsDeps,
  type StreamView,
} from "./streams.ts";
export type { Queue, QueuedJob } from "./job_queue.ts";
export { type EvaluationRequest, MAX_REPEATS, MAX_REVISIONS } from "./evaluation_request.ts";
export {
  type Evaluation,
  EVALUATION_STATES,
  type EvaluationFilter,
  type EvaluationState,
  hasEnded,
} from "./evaluation_store.ts";
export { type CampaignRef, Evaluations, type EvaluationsDeps } from "./evaluations.ts";
export { EvaluationRunner, type EvaluationRunnerOptions } from "./evaluation_runner.ts";
export { AgentRunner, type AgentRunnerOptions } from "./agent_runner.ts";
export type { VcsByName } from "./run_clones.ts";
export { Inputs } from "./run_inputs.ts";
export { expiring, type RetainedColumn, type RetentionDays } from "./retention.ts";
export { LOG_LIMITS, type LogLimits } from "./run_logs.ts";
export { MAKE_LINKS } from "./run_inputs.ts";
