import assert from "node:assert/strict";
import * as z from "zod";
import { type Config, ConfigError, loadConfig, parseTable } from "../../lib/home/config/mod.ts";
import { TempDir } from "../kit/mod.ts";

async function load(
  toml: string,
  env: Record<string, string> = {},
  overrides: { listen?: string } = {},
): Promise<Config> {
  await using dir = await TempDir.make();
  await Deno.writeTextFile(dir.join("config.toml"), toml);
  return await loadConfig(dir.path, env, overrides);
}

/** The lines of the error, with the file's path as FILE. */
async function problems(
  toml: string,
  env: Record<string, string> = {},
  overrides: { listen?: string } = {},
): Promise<string[]> {
  await using dir = await TempDir.make();
  await Deno.writeTextFile(dir.join("config.toml"), toml);
  try {
    await loadConfig(dir.path, env, overrides);
  } catch (error) {
    assert.ok(error instanceof ConfigError, String(error));
    assert.equal(error.code, "config");
    assert.equal(error.message, error.problems.join("\n"));
    return error.problems.map((line) => line.replaceAll(dir.join("config.toml"), "FILE"));
  }
  return [];
}

Deno.test("a home without a config has the defaults", async () => {
  await using dir = await TempDir.make();
  assert.deepEqual(await loadConfig(dir.path, {}), {
    executor: {
      renewSeconds: 10,
      graceSeconds: 50,
      tolerationSeconds: 300,
      keepDays: 90,
      pools: {
        serve: {
          agents: null,
          evaluations: 2,
          minMemoryGb: null,
          maxLoad: null,
          runners: [],
          provisioner: null,
        },
      },
    },
    network: { provider: "https", listen: null, tls: null, url: null },
    cas: { provider: "disk" },
    secrets: { provider: "local" },
    limits: {
      maxBlobBytes: null,
      tokenTransfers: 128,
      tokenBytesPerSecond: null,
      tokenBytesPerDay: null,
      tokenUploads: 64,
      tokenUploadsBytes: 256 * 2 ** 30,
      uploadHours: 24,
      stallSeconds: 30,
    },
    storage: { minFreeGb: 20, sessionsDays: null, filesDays: null },
    harness: {},
    mcp: {},
  });
});

Deno.test("a config with every key is read", async () => {
  await using dir = await TempDir.make();
  await Deno.writeTextFile(dir.join("cert.pem"), "");
  await Deno.writeTextFile(dir.join("key.pem"), "");
  await Deno.writeTextFile(
    dir.join("config.toml"),
    `
[plugins.executor]
provider = "workers"
renew_seconds = 1
grace_seconds = 5
toleration_seconds = 30.5
[plugins.executor.pools.serve]
agents = 0
evaluations = 1
[plugins.executor.pools."gpu.big-1"]
agents = 4
evaluations = 2
min_memory_gb = 8
max_load = 1.5
[plugins.executor.pools.burst]
runners = ["process"]
[plugins.executor.pools.burst.provisioner]
max = 6
idle_seconds = 300
[plugins.executor.pools.burst.provisioner.compute]
provider = "local"
[plugins.network]
provider = "https"
listen = "[::]:8443"
tls = { cert = "cert.pem", key = "${dir.join("key.pem")}" }
url = "https://server.example:8443"
[plugins.cas]
provider = "http"
url = "http://server:8444"
[plugins.secrets]
provider = "local"
[storage]
min_free_gb = 0.5
`,
  );
  const config = await loadConfig(dir.path, {});
  assert.deepEqual(Object.keys(config.executor.pools).sort(), ["burst", "gpu.big-1", "serve"]);
  assert.deepEqual(config.executor.pools["gpu.big-1"], {
    agents: 4,
    evaluations: 2,
    minMemoryGb: 8,
    maxLoad: 1.5,
    runners: [],
    provisioner: null,
  });
  assert.deepEqual(config.executor.pools.burst?.provisioner, {
    max: 6,
    idle_seconds: 300,
    compute: Object.assign(Object.create(null), { provider: "local" }),
  });
  assert.equal(config.executor.pools.serve?.agents, 0);
  assert.deepEqual(config.network, {
    provider: "https",
    listen: { host: "::", port: 8443 },
    tls: { cert: dir.join("cert.pem"), key: dir.join("key.pem") },
    url: "https://server.example:8443",
  });
  assert.deepEqual(config.cas, { provider: "http", url: "http://server:8444" });
  assert.equal(config.storage.minFreeGb, 0.5);
});

const MISTAKES: readonly (readonly [toml: string, line: string])[] = [
  ["plugins = 3", "plugins = 3: must be a table of tables (in FILE)"],
  [
    "[plugins.executer]\nrenew_seconds = 3",
    "plugins.executer = {…}: there is no such key; did you mean executor? (in FILE)",
  ],
  [
    "[plugins.vcs]",
    "plugins.vcs = {…}: there is no such key; known here: cas, executor, network, secrets (in FILE)",
  ],
  [
    "[plugins.network]\nlisten = '0.0.0.0:1'\ntls = { cert = '/dev/null', key = '/dev/null', certificate = 1 }",
    "plugins.network.tls.certificate = 1: there is no such key; known here: cert, key (in FILE)",
  ],
  ["[plugins]\nnetwork = 'x'", 'plugins.network = "x": must be a table (in FILE)'],
  [
    "[plugins.network]\nprovider = 'proxy'\nrules = []",
    'plugins.network.provider = "proxy": this version has only "https" (in FILE)',
  ],
  [
    "[plugins.executor]\nprovider = 'local'",
    'plugins.executor.provider = "local": this version has only "workers" (in FILE)',
  ],
  [
    "[plugins.executor]\nrenew_second = 3",
    "plugins.executor.renew_second = 3: there is no such key; did you mean renew_seconds? (in FILE)",
  ],
  [
    "[plugins.executor]\nrenew_seconds = 0",
    "plugins.executor.renew_seconds = 0: must be a number above 0 (in FILE)",
  ],
  [
    "[plugins.executor]\nrenew_seconds = nan",
    "plugins.executor.renew_seconds = NaN: must be a number above 0 (in FILE)",
  ],
  [
    "[plugins.executor]\nrenew_seconds = '10'",
    'plugins.executor.renew_seconds = "10": must be a number above 0 (in FILE)',
  ],
  [
    "[plugins.executor]\nrenew_seconds = 10\ngrace_seconds = 10",
    "plugins.executor: renew_seconds = 10, grace_seconds = 10, toleration_seconds = 300: must be " +
    "renew_seconds < grace_seconds < toleration_seconds - 2 * renew_seconds (in FILE)",
  ],
  [
    "[plugins.executor]\ntoleration_seconds = 70",
    "plugins.executor: renew_seconds = 10, grace_seconds = 50, toleration_seconds = 70: must be " +
    "renew_seconds < grace_seconds < toleration_seconds - 2 * renew_seconds (in FILE)",
  ],
  [
    "[plugins.executor.pools.a]\nagents = -1",
    "plugins.executor.pools.a.agents = -1: must be a whole number of at least 0 (in FILE)",
  ],
  [
    "[plugins.executor.pools.a]\nevaluations = 1.5",
    "plugins.executor.pools.a.evaluations = 1.5: must be a whole number of at least 0 (in FILE)",
  ],
  [
    "[plugins.executor.pools.a]\nmin_memory_gb = -2",
    "plugins.executor.pools.a.min_memory_gb = -2: must be a number of at least 0 (in FILE)",
  ],
  [
    "[plugins.executor.pools.a]\nmax_load = -0.5",
    "plugins.executor.pools.a.max_load = -0.5: must be a number of at least 0 (in FILE)",
  ],
  [
    "[plugins.executor.pools.a]\nrunners = 'process'",
    'plugins.executor.pools.a.runners = "process": must be a list of texts (in FILE)',
  ],
  [
    "[plugins.executor.pools.a]\nrunners = ['x', 3]",
    "plugins.executor.pools.a.runners.1 = 3: must be text (in FILE)",
  ],
  [
    "[plugins.executor.pools.a]\nevaluation = 1",
    "plugins.executor.pools.a.evaluation = 1: there is no such key; did you mean evaluations? (in FILE)",
  ],
  [
    "[plugins.executor.pools]\na = 3",
    "plugins.executor.pools.a = 3: must be a table (in FILE)",
  ],
  [
    "[plugins.executor.pools.'a b']",
    "plugins.executor.pools.\"a b\" = {…}: a pool's name is 1 to 64 letters, digits, '.', '_' and '-', " +
    "the first no sign (in FILE)",
  ],
  [
    "[plugins.executor.pools.'../x']",
    "plugins.executor.pools.\"../x\" = {…}: a pool's name is 1 to 64 letters, digits, '.', '_' and '-', " +
    "the first no sign (in FILE)",
  ],
  [
    "[plugins.executor.pools.a]\nevaluations = 0\n[plugins.executor.pools.a.provisioner]\nmin = 1",
    "plugins.executor.pools.a.provisioner.max: must be a whole number of at least 0 (in FILE)",
  ],
  [
    "[plugins.executor.pools.a.provisioner]\nmax = 1",
    "plugins.executor.pools.a.runners = []: name the evaluators that its workers bring, such as " +
    'runners = ["process"], since it has a provisioner and takes evaluations (in FILE)',
  ],
  [
    "[plugins.network]\nlisten = 'nonsense'",
    'plugins.network.listen = "nonsense": must be HOST:PORT, such as 127.0.0.1:8443 or [::1]:0 (in FILE)',
  ],
  [
    "[plugins.network]\nlisten = '0.0.0.0:80'",
    'plugins.network.listen = "0.0.0.0:80": it is no loopback address, and without TLS tokens would ' +
    'cross the network in clear: set tls = { cert = "FILE", key = "FILE" } in [plugins.network], or ' +
    'tls = "proxy" when a proxy before the server ends TLS (in FILE)',
  ],
  [
    "[plugins.network]\ntls = 'yes'",
    'plugins.network.tls = "yes": must be { cert = "FILE", key = "FILE" } of PEM files, or "proxy" (in FILE)',
  ],
  [
    "[plugins.network]\ntls = { cert = '/nowhere/c.pem' }",
    'plugins.network.tls.cert = "/nowhere/c.pem": must be a file that exists (in FILE)',
  ],
  [
    "[plugins.network]\nurl = 'ftp://x'",
    'plugins.network.url = "ftp://x": must be an http or https URL (in FILE)',
  ],
  ["[plugins.cas]\nprovider = 3", "plugins.cas.provider = 3: must be text (in FILE)"],
  [
    "[plugins.secrets]\nprovider = ''",
    'plugins.secrets.provider = "": must not be empty (in FILE)',
  ],
  [
    "[storage]\nmin_free_gb = -1",
    "storage.min_free_gb = -1: must be a number of at least 0 (in FILE)",
  ],
  ["[limits]\nmax_blob_gb = 0", "limits.max_blob_gb = 0: must be a number above 0 (in FILE)"],
  [
    "[limits]\ntoken_transfers = 1.5",
    "limits.token_transfers = 1.5: must be a whole number of at least 1 (in FILE)",
  ],
  [
    "[limits]\nstall_second = 5",
    "limits.stall_second = 5: there is no such key; did you mean stall_seconds? (in FILE)",
  ],
  ["[storag]", "storag = {…}: there is no such key; did you mean storage? (in FILE)"],
  [
    "max_evaluations = 3",
    "max_evaluations = 3: there is no such key; known here: harness, limits, mcp, plugins, storage (in FILE)",
  ],
];

for (const [toml, line] of MISTAKES) {
  Deno.test(`config: ${line.slice(0, 100)}`, async () => {
    const lines = await problems(toml);
    assert.ok(lines.includes(line), lines.join("\n"));
    for (const one of lines) assert.ok(!one.includes("\n"));
  });
}

Deno.test("config: every mistake is reported at once, each on its line", async () => {
  const lines = await problems(
    `
[plugins.executor]
renew_seconds = 100
[plugins.executor.pools.a]
agents = -1
evaluatoins = 3
[plugins.network]
listen = "example.com:443"
[storage]
min_free_gb = "much"
[plugins.cas]
provider = 1
`,
    { SUBLET_PLUGINS__EXECUTOR__POOLS__B__AGENTS: "many" },
  );
  assert.deepEqual(lines.map((line) => line.split(/[ :]/)[0]).sort(), [
    "plugins.cas.provider",
    "plugins.executor",
    "plugins.executor.pools.a.agents",
    "plugins.executor.pools.a.evaluatoins",
    "plugins.executor.pools.b.agents",
    "plugins.network.listen",
    "storage.min_free_gb",
  ]);
});

Deno.test("config: TOML that cannot be parsed is one line with its place", async () => {
  const [line, ...more] = await problems("[plugins.executor]\nrenew_seconds = = 3\n");
  assert.match(line ?? "", /^line 2, column \d+: .+ \(in FILE\)$/);
  assert.deepEqual(more, []);
});

Deno.test("config: a directory in the file's place is a mistake, not a crash", async () => {
  await using dir = await TempDir.make();
  await Deno.mkdir(dir.join("config.toml"));
  await assert.rejects(loadConfig(dir.path, {}), ConfigError);
});

Deno.test("the environment overrides single keys of the file, as the types of the keys", async () => {
  const config = await load(
    "[plugins.executor.pools.serve]\nagents = 3\nevaluations = 5\n[plugins.executor.pools.Big-One]\nagents = 1",
    {
      SUBLET_STORAGE__MIN_FREE_GB: "5",
      SUBLET_PLUGINS__EXECUTOR__POOLS__SERVE__EVALUATIONS: "1",
      SUBLET_PLUGINS__EXECUTOR__POOLS__BIG_ONE__AGENTS: "null",
      SUBLET_PLUGINS__EXECUTOR__POOLS__NEW__RUNNERS: '["process"]',
      SUBLET_PLUGINS__EXECUTOR__POOLS__OTHER__RUNNERS: "a, b",
      SUBLET_PLUGINS__NETWORK__LISTEN: "127.0.0.1:0",
      SUBLET_PLUGINS__CAS__PATH: "123",
      SUBLET_PLUGINS__CAS__PROVIDER: "456",
      SUBLET_HTTPS_TOKEN: "slt_x",
      SUBLET_HOME: "/nowhere",
    },
  );
  assert.equal(config.storage.minFreeGb, 5);
  assert.deepEqual(config.executor.pools.serve?.agents, 3);
  assert.deepEqual(config.executor.pools.serve?.evaluations, 1);
  assert.deepEqual(config.executor.pools["Big-One"]?.agents, null);
  assert.deepEqual(config.executor.pools.new?.runners, ["process"]);
  assert.deepEqual(config.executor.pools.other?.runners, ["a", "b"]);
  assert.deepEqual(config.network.listen, { host: "127.0.0.1", port: 0 });
  assert.deepEqual(config.cas, { provider: "456", path: 123 });
});

Deno.test("SUBLET_PLUGINS is one JSON object, merged over the file, and single keys win over it", async () => {
  const config = await load("[plugins.executor]\nrenew_seconds = 2\ngrace_seconds = 20", {
    SUBLET_PLUGINS: '{"executor": {"renew_seconds": 3, "toleration_seconds": 100}}',
    SUBLET_PLUGINS__EXECUTOR__TOLERATION_SECONDS: "200",
  });
  assert.deepEqual(
    [config.executor.renewSeconds, config.executor.graceSeconds, config.executor.tolerationSeconds],
    [3, 20, 200],
  );
});

Deno.test("a mistake of the environment names its variable", async () => {
  assert.deepEqual(await problems("", { SUBLET_STORAGE__MIN_FREE_GB: "much" }), [
    'storage.min_free_gb = "much": must be a number of at least 0 (in the environment variable ' +
    "SUBLET_STORAGE__MIN_FREE_GB)",
  ]);
  assert.deepEqual(await problems("", { SUBLET_STORAGE__MIN_FREE: "1" }), [
    "storage.min_free = 1: there is no such key; did you mean min_free_gb? (in the environment variable " +
    "SUBLET_STORAGE__MIN_FREE)",
  ]);
  assert.deepEqual(await problems("", { SUBLET_STORE__PATH: "a" }), [
    "store = {…}: there is no such key; known here: harness, limits, mcp, plugins, storage (in the environment " +
    "variable SUBLET_STORE__PATH)",
  ]);
  assert.deepEqual(await problems("", { SUBLET_PLUGINS: '{"executor": {"renew_seconds": -1}}' }), [
    "plugins.executor.renew_seconds = -1: must be a number above 0 (in the environment variable " +
    "SUBLET_PLUGINS)",
  ]);
  const [line] = await problems("", { SUBLET_PLUGINS: "{broken" });
  assert.match(line ?? "", /^SUBLET_PLUGINS: must be one JSON object: .* \(in the environment\)$/);
  assert.deepEqual((await problems("", { SUBLET_PLUGINS____X: "1" })).length, 1);
});

Deno.test("--listen replaces the file's address, and is judged by the same rules", async () => {
  const file = "[plugins.network]\nlisten = '127.0.0.1:1'";
  assert.deepEqual((await load(file, {}, { listen: "[::1]:7" })).network.listen, {
    host: "::1",
    port: 7,
  });
  const [line] = await problems(file, {}, { listen: "0.0.0.0:7" });
  assert.match(
    line ?? "",
    /^plugins\.network\.listen = "0\.0\.0\.0:7": it is no loopback.*\(in --listen\)$/,
  );
});

Deno.test("keys like __proto__ are keys like any other", async () => {
  const lines = await problems("[__proto__]\npolluted = 1\n[plugins.executor.pools.__proto__]", {
    SUBLET_PLUGINS: '{"__proto__": {"polluted": 1}}',
  });
  assert.equal(lines.length >= 2, true, lines.join("\n"));
  assert.equal(({} as Record<string, unknown>).polluted, undefined);
});

Deno.test("a provider's table is read with lines of the same kind", () => {
  const schema = z.strictObject({ provider: z.literal("disk"), path: z.string().optional() });
  assert.deepEqual(parseTable(schema, { provider: "disk" }, "plugins.cas", "config.toml"), {
    provider: "disk",
  });
  assert.throws(
    () => parseTable(schema, { provider: "disk", pth: "/x" }, "plugins.cas", "config.toml"),
    (error) =>
      error instanceof ConfigError &&
      error.message ===
        'plugins.cas.pth = "/x": there is no such key; did you mean path? (in config.toml)',
  );
});
