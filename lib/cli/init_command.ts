/** @module `sublet init`: make a campaign of a git repository. */

import type { Command } from "@commander-js/extra-typings";
import { SubletError } from "../home/mod.ts";
import { ApiClient } from "./api_client.ts";
import { followAll, printEvaluation } from "./eval_command.ts";
import { Output } from "./output.ts";
import type { EvaluationView } from "./views.ts";

interface CampaignView {
  readonly id: number;
  readonly name: string;
  readonly path: string;
}

/** Add the command. */
export function addInit(root: Command): void {
  root.command("init")
    .description("Register a git repository as a campaign, from its sublet.toml, and measure HEAD.")
    .argument("[dir]", "the repository's checkout", ".")
    .option("--no-measure", "register only")
    .option("--no-wait", "queue the measurement of HEAD and leave")
    .option("--json", "print JSON: the campaign, then the evaluation")
    .addHelpText(
      "after",
      "\nWithout a sublet.toml one is written with every key explained: fill in `evaluate`, then run init again.",
    )
    .action(async (dir, options) => {
      const output = new Output(options);
      const path = await checkoutOf(dir);
      await writeTemplate(path);
      using api = await ApiClient.open();
      const campaign = await api.call<CampaignView>("POST", "/v1/campaigns", { path });
      if (output.json) output.document(campaign);
      else {
        output.note(`campaign ${campaign.name} (${campaign.id}) at ${campaign.path}`);
        for (const link of await missingLinks(api, campaign)) {
          output.note(`link "${link}": there is no such path now, so jobs run without it`);
        }
      }
      if (!options.measure) return;
      const { evaluations } = await api.call<{ evaluations: EvaluationView[] }>(
        "POST",
        "/v1/evaluations",
        {
          campaign: campaign.name,
          revisions: ["HEAD"],
        },
      );
      if (!options.wait) {
        for (const evaluation of evaluations) printEvaluation(output, evaluation);
        return;
      }
      await followAll(api, output, evaluations);
    });
}

/** The linked inputs of `campaign` that are not in its checkout: a job gets those that are there when it is asked for. */
async function missingLinks(api: ApiClient, { id, path }: CampaignView): Promise<string[]> {
  const { config } = await api.call<{ config: { link?: readonly string[] } }>(
    "GET",
    `/v1/campaigns/${id}`,
  );
  const missing: string[] = [];
  for (const link of config.link ?? []) {
    if (!await Deno.stat(`${path}/${link}`).then(() => true, () => false)) missing.push(link);
  }
  return missing;
}

/** The root of the git checkout that `dir` is in. */
async function checkoutOf(dir: string): Promise<string> {
  let path: string;
  try {
    path = await Deno.realPath(dir);
  } catch (cause) {
    throw new SubletError(
      "not_found",
      `${dir} is no directory: name the checkout of a git repository`,
      { cause },
    );
  }
  for (let root = path; root !== ""; root = root.slice(0, root.lastIndexOf("/"))) {
    if (await Deno.lstat(`${root}/.git`).then(() => true, () => false)) return root;
  }
  throw new SubletError(
    "not_found",
    `${path} is in no git repository: run \`git init\` and commit first`,
  );
}

/** Write `sublet.toml` and stop, when the checkout has neither it nor a `piloop.toml`. */
async function writeTemplate(root: string): Promise<void> {
  const { campaignFiles, writeNewFiles } = await import("../job/mod.ts");
  const files = await campaignFiles(root);
  if (files.length === 0) return;
  await writeNewFiles(root, files);
  throw new SubletError(
    "usage",
    `wrote ${root}/${
      files[0]?.path
    }: set \`evaluate\` and \`[[metrics]]\` in it, then run \`sublet init\` again`,
  );
}
