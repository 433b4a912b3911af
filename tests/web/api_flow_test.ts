/** @module Evaluations from the API's request to its answer, run for real: checkout, inputs, command, metrics, logs. */

import assert from "node:assert/strict";
import { nullLog, systemClock, systemIds } from "../../lib/home/mod.ts";
import { EvaluationRunner, type JobControl } from "../../lib/job/mod.ts";
import { TestProcesses } from "../kit/processes.ts";
import { sure } from "../job/campaign_kit.ts";
import { ApiKit, HandWorker } from "./api_kit.ts";

const TOML = `
name = "demo"
evaluate = ["sh", "evaluate.sh"]
link = ["data"]
[[metrics]]
name = "score"
direction = "higher"
role = "primary"
repeats = 2
`;

/** Counts the lines of the data that hold the word of this version, and says so by unit. */
const SCRIPT = `
score=0
units=
for file in data/*.txt; do
  n=$(grep -c -f word "$file" || true)
  score=$((score + n))
  units="$units\${units:+,}\\"$(basename "$file")\\":$n"
done
echo "METRIC score=$score"
printf '{"score":{%s}}' "$units" > "$SUBLET_UNITS_FILE"
`;

/** Run the next job of the queue as a worker does. */
async function work(api: ApiKit, worker: HandWorker): Promise<void> {
  const home = api.kit.dir.join(`home-${worker.name}`);
  await Deno.mkdir(home, { recursive: true });
  const { evaluations, cas } = api.kit;
  const runner = new EvaluationRunner({
    home,
    cas,
    processes: new TestProcesses(),
    clock: systemClock,
    ids: systemIds,
    log: nullLog,
    send: async (repo, revisions, have, signal) =>
      sure(await evaluations.send(repo, revisions, have, 25, signal)),
  });
  const { lease, job_cid } = await worker.acquire();
  const control: JobControl = {
    lease,
    stop: new AbortController().signal,
    started: async (handle, session) => {
      await api.engine.started(worker.caller, lease, handle, session);
      return true;
    },
  };
  const bytes = sure(await cas.get(job_cid as Parameters<typeof cas.get>[0]));
  const outcome = await runner.run(JSON.parse(new TextDecoder().decode(bytes)), control);
  assert.ok("report" in outcome, JSON.stringify(outcome));
  await worker.report(lease, outcome.report);
}

Deno.test("a commit beside another one is measured on a worker, compared by unit, with its logs", async () => {
  await using api = await ApiKit.make(TOML);
  const { repo } = api.kit;
  await repo.write(".gitignore", "data\n");
  await repo.write("evaluate.sh", SCRIPT);
  await repo.write("word", "red\n");
  await repo.write("data/a.txt", "red\nblue\nblue\n");
  await repo.write("data/sub/unused", "x");
  await repo.write("data/b.txt", "blue\nblue\n");
  await repo.commit("counts red");
  await repo.write("word", "blue\n");
  await repo.commit("counts blue");
  assert.equal((await api.owner("POST", "/v1/campaigns", { path: repo.path })).status, 200);
  const asked = await api.owner("POST", "/v1/evaluations", {
    path: repo.path,
    revisions: ["HEAD"],
    against: "HEAD~1",
  });
  const { evaluation, job } = asked.json.evaluations[0];
  const worker = new HandWorker(api);
  await worker.register();
  const waiting = api.owner("GET", `/v1/evaluations/${evaluation}?wait=25`);
  await work(api, worker);
  const done = (await waiting).json;
  assert.deepEqual([done.state, done.error, done.metrics], ["measured", null, { score: 4 }]);
  assert.equal(done.samples.length, 2);
  assert.deepEqual(done.bar_samples.map((sample: { metrics: object }) => sample.metrics), [
    { score: 1 },
    { score: 1 },
  ]);
  const { verdict, metrics } = done.comparison;
  assert.deepEqual(
    [verdict, metrics.score.method, metrics.score.gain, metrics.score.differences],
    ["keep", "units", 3, [3, 3]],
  );
  const { files } = (await api.owner("GET", `/v1/jobs/${job}/logs`)).json;
  const path = sure(Object.keys(files).find((each) => each.endsWith("candidate-0/eval.stdout")));
  const response = await api.raw(`/v1/jobs/${job}/logs/${path}`);
  assert.equal(await response.text(), "METRIC score=4\n");
});
