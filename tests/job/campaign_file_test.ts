/** @module Tests of a campaign's file: what loads, and how each mistake is told. */

import assert from "node:assert/strict";
import { checkCampaign, loadCampaign } from "../../lib/job/campaign_file.ts";
import { repeatsOf } from "../../lib/job/campaign_config.ts";
import {
  campaignFiles,
  campaignName,
  campaignTemplate,
  writeNewFiles,
} from "../../lib/job/campaign_template.ts";
import { TempDir } from "../kit/mod.ts";

const PLAIN = `
name = "demo"
evaluate = ["python3", "evaluate.py"]
[[metrics]]
name = "score"
direction = "higher"
role = "primary"
`;

function problems(text: string): string[] {
  const checked = checkCampaign(text, "sublet.toml");
  assert.ok("problems" in checked, "the file loads, though it should not");
  return checked.problems;
}

function config(text: string) {
  const checked = checkCampaign(text, "sublet.toml");
  assert.ok("config" in checked, "problems" in checked ? checked.problems.join("\n") : "");
  return checked.config;
}

Deno.test("a campaign's file loads with its defaults", () => {
  const loaded = config(PLAIN);
  assert.equal(loaded.evaluate_timeout, 600);
  assert.deepEqual(loaded.link, []);
  assert.equal(loaded.plugins.verdict_rule.confidence, 0.95);
  assert.equal(loaded.plugins.vcs.provider, "git");
});

Deno.test("a campaign's file of piloop loads unchanged, with keys that mean nothing here", () => {
  const loaded = config(`
name = "tracks"
evaluate = ["uv", "run", "python", "evaluate.py"]
evaluate_timeout = 300
runtime = "subprocess"
harnesses = ["pi", "claude"]
context = ["docs/errors-*.md"]
link = ["data", ".venv"]
model = { pi = "a/b", claude = "c" }
max_concurrent = { claude = 2 }
[harness.mine]
executable = "x"
[mcp.exa]
url = "https://example.org/mcp"
[roles.implementer]
timeout = 900
[spend]
command = ["spent"]
[memory]
documents = ["docs"]
[status]
sections = []
[[metrics]]
name = "accuracy"
direction = "higher"
role = "primary"
track = "accuracy"
margin = 0.02
floor = 0.74
[[metrics]]
name = "seconds"
direction = "lower"
role = "primary"
track = "cost"
margin = 0.3
repeats = 3
[tracks.accuracy]
share = 0.75
addendum = "briefs/accuracy.md"
[tracks.cost]
share = 0.25
[plugins.stop_rule]
provider = "budget"
hours = 3
[plugins.verdict_rule]
confidence = 0.9
`);
  assert.deepEqual(loaded.link, ["data", ".venv"]);
  assert.equal(repeatsOf(loaded), 3);
});

Deno.test("every mistake of a campaign's file is one line with key, value, rule and file", () => {
  assert.deepEqual(
    problems(`
nam = "demo"
evaluate = "python3 evaluate.py"
evaluate_timeout = 0
link = ["../outside"]
[[metrics]]
name = "a=b"
direction = "up"
[[metrics]]
nmae = "c"
direction = "lower"
[plugins.cas]
provider = "disk"
[plugins.verdict_rule]
confidence = 2
`),
    [
      "name: is required (a text) (in sublet.toml)",
      'evaluate = "python3 evaluate.py": must be a list (in sublet.toml)',
      "evaluate_timeout = 0: must be greater than 0 (in sublet.toml)",
      'link[0] = "../outside": must be a relative path inside the repo, and it has a part ".." ' +
      "(in sublet.toml)",
      `metrics[0].name = "a=b": must be a printable name without '=' (in sublet.toml)`,
      `metrics[0].direction = "up": must be one of 'higher', 'lower' (in sublet.toml)`,
      "metrics[1].name: is required (a text) (in sublet.toml)",
      `metrics[1].nmae = "c": there is no such key; did you mean 'name'? (in sublet.toml)`,
      "plugins.verdict_rule.confidence = 2: must be below 1 (in sublet.toml)",
      `plugins.cas = {"provider":"disk"}: belongs into the home's config.toml, not into a ` +
      "campaign's file (in sublet.toml)",
      `nam = "demo": there is no such key; did you mean 'name'? (in sublet.toml)`,
    ],
  );
});

const RULES: [string, string, RegExp][] = [
  [
    "a guardrail needs a margin",
    `[[metrics]]\nname = "m"\ndirection = "lower"\nrole = "guardrail"`,
    /^metrics\[1\]\.margin: is required on a guardrail/,
  ],
  [
    "a watched metric has no floor",
    `[[metrics]]\nname = "m"\ndirection = "lower"\nfloor = 1`,
    /^metrics\[1\]\.floor = 1: applies to a guardrail or a primary only/,
  ],
  [
    "only a primary has a track",
    `[[metrics]]\nname = "m"\ndirection = "lower"\ntrack = "t"`,
    /^metrics\[1\]\.track = "t": applies to a primary only/,
  ],
  [
    "a metric has a name of its own",
    `[[metrics]]\nname = "score"\ndirection = "lower"`,
    /^metrics\[1\]\.name = "score": is the name of an earlier metric/,
  ],
  [
    "a table of tracks belongs to a primary",
    `[tracks.speed]\nshare = 1`,
    /^tracks\.speed = \{"share":1\}: is the track of no primary metric/,
  ],
  [
    "several primaries need margins, tables and shares of 1",
    `[[metrics]]\nname = "m"\ndirection = "lower"\nrole = "primary"`,
    /^metrics\[0\]\.margin: is required on each primary/,
  ],
];

for (const [rule, text, line] of RULES) {
  Deno.test(`a campaign's file is refused: ${rule}`, () => {
    assert.match(problems(PLAIN + text)[0] ?? "", line);
  });
}

Deno.test("a campaign's name of digits alone is refused, since it would name an id", () => {
  assert.match(problems(PLAIN.replace("demo", "12"))[0] ?? "", /^name = "12": /);
});

Deno.test("text that is not TOML is told with its line", () => {
  assert.match(
    problems("name = \n")[0] ?? "",
    /^line 1, column \d+: is not TOML: .* \(in sublet\.toml\)$/,
  );
});

Deno.test("sublet.toml is read before piloop.toml, and one of them must be there", async () => {
  await using dir = await TempDir.make();
  await assert.rejects(loadCampaign(dir.path), { code: "not_found", message: /sublet init/ });
  await Deno.writeTextFile(dir.join("piloop.toml"), PLAIN.replace("demo", "old"));
  assert.equal((await loadCampaign(dir.path)).config.name, "old");
  await Deno.writeTextFile(dir.join("sublet.toml"), PLAIN);
  const loaded = await loadCampaign(dir.path);
  assert.deepEqual([loaded.config.name, loaded.path], ["demo", dir.join("sublet.toml")]);
});

Deno.test("a campaign's file with mistakes is refused with all of them", async () => {
  await using dir = await TempDir.make();
  await Deno.writeTextFile(dir.join("sublet.toml"), "name = 1\nx = 2\n");
  await assert.rejects(loadCampaign(dir.path), (error: Error & { code?: string }) => {
    assert.equal(error.code, "invalid_request");
    assert.equal(error.message.split("\n").length, 4);
    for (const line of error.message.split("\n")) assert.ok(line.includes(dir.join("sublet.toml")));
    return true;
  });
});

Deno.test("the template guesses no command and no metric: it loads only once it is filled in", () => {
  const text = campaignTemplate("/src/my repo");
  const lines = problems(text);
  assert.ok(lines.some((line) => line.startsWith("evaluate = []")), lines.join("\n"));
  const filled = text.replace("evaluate = [] ", 'evaluate = ["./measure"] ')
    .replace('name = ""', 'name = "score"').replace('direction = ""', 'direction = "higher"');
  const loaded = config(filled);
  assert.deepEqual([loaded.name, loaded.metrics[0]?.role], ["my-repo", "primary"]);
});

Deno.test("a new campaign's files are never written over what is there", async () => {
  await using dir = await TempDir.make();
  const files = await campaignFiles(dir.path);
  assert.deepEqual(files.map(({ path }) => path), ["sublet.toml"]);
  await writeNewFiles(dir.path, files);
  assert.deepEqual(await campaignFiles(dir.path), []);
  await assert.rejects(writeNewFiles(dir.path, files), Deno.errors.AlreadyExists);
});

Deno.test("a repo with a piloop.toml gets no second file", async () => {
  await using dir = await TempDir.make();
  await Deno.writeTextFile(dir.join("piloop.toml"), PLAIN);
  assert.deepEqual(await campaignFiles(dir.path), []);
});

Deno.test("a campaign's default name is the directory's, made valid", () => {
  assert.deepEqual(
    ["/a/b c", "/a/.hidden", "/a/12", "/", "/a/ok-1/"].map(campaignName),
    ["b-c", "hidden", "campaign-12", "campaign-1", "ok-1"],
  );
});
