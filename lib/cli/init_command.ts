/** @module `sublet init`: make a campaign of a git repository. */

import type { Command } from "@commander-js/extra-typings";
import { SubletError } from "../home/mod.ts";
import { campaignTemplate } from "../job/mod.ts";
import { ApiClient } from "./api_client.ts";
import { followAll } from "./eval_command.ts";
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
      const path = await checkout(dir);
      await writeTemplate(path);
      using api = await ApiClient.open();
      const campaign = await api.call<CampaignView>("POST", "/v1/campaigns", { path });
      if (output.json) output.document(campaign);
      else output.note(`campaign ${campaign.name} (${campaign.id}) at ${campaign.path}`);
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
        for (const evaluation of evaluations) output.document(evaluation);
        return;
      }
      await followAll(api, output, evaluations);
    });
}

async function checkout(dir: string): Promise<string> {
  try {
    return await Deno.realPath(dir);
  } catch (cause) {
    throw new SubletError(
      "not_found",
      `${dir} is no directory: name the checkout of a git repository`,
      { cause },
    );
  }
}

async function exists(path: string): Promise<boolean> {
  return await Deno.lstat(path).then(() => true, () => false);
}

/** Write `sublet.toml` and stop, when the checkout has neither it nor a `piloop.toml`. */
async function writeTemplate(path: string): Promise<void> {
  if (await exists(`${path}/sublet.toml`) || await exists(`${path}/piloop.toml`)) return;
  await Deno.writeTextFile(
    `${path}/sublet.toml`,
    campaignTemplate(path.split("/").at(-1) ?? "campaign"),
    { createNew: true },
  );
  throw new SubletError(
    "usage",
    `wrote ${path}/sublet.toml: set \`evaluate\` and \`[[metrics]]\` in it, then run \`sublet init\` again`,
  );
}
