/** @module Tests of where credentials of AWS are found. */

import assert from "node:assert/strict";
import { Hosts } from "../../lib/cas/objects_calls.ts";
import { openS3 } from "../../lib/cas/s3.ts";
import { AwsCredentials } from "../../lib/cas/s3_credentials.ts";
import { splitWords } from "../../lib/cas/s3_process.ts";
import { isError, systemClock } from "../../lib/home/mod.ts";
import { TempDir } from "../kit/mod.ts";
import { hastyClock, needs, noise } from "./bucket_kit.ts";
import { FakeS3, refuse } from "./s3_fake.ts";
import { callS3, MOTO, s3Env, startMoto } from "./s3_kit.ts";

type Env = Record<string, string>;

/** Credentials of whoever has the environment `env` and nothing else. */
function credentialsOf(env: Env, clock = systemClock) {
  const all = { HOME: "/nonexistent", AWS_EC2_METADATA_DISABLED: "true", ...env };
  const hosts = new Hosts(all);
  const found = new AwsCredentials({ env: all, hosts, clock, region: "eu-central-1" });
  return { found, [Symbol.dispose]: () => hosts[Symbol.dispose]() };
}

async function keysOf(env: Env) {
  using credentials = credentialsOf(env);
  const { accessKeyId, secretAccessKey, sessionToken } = await credentials.found.keys();
  return [accessKeyId, secretAccessKey, sessionToken];
}

async function refusal(env: Env): Promise<string> {
  const error = await keysOf(env).then(() => null, (error) => error);
  assert.ok(isError(error, "config"), String(error));
  return error.message;
}

/** A server of `answers`, by method and path. */
function serve(answers: Record<string, (request: Request) => Response | Promise<Response>>) {
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, (request) => {
    const { pathname } = new URL(request.url);
    return answers[`${request.method} ${pathname}`]?.(request) ??
      new Response(null, { status: 404 });
  });
  return {
    url: `http://127.0.0.1:${server.addr.port}`,
    [Symbol.asyncDispose]: () => server.shutdown(),
  };
}

const json = (id: string, expires?: Date) =>
  Response.json({
    AccessKeyId: id,
    SecretAccessKey: "secret",
    Token: `token of ${id}`,
    ...(expires === undefined ? {} : { Expiration: expires.toISOString() }),
  });

Deno.test("credentials are taken from the environment first", async () => {
  assert.deepEqual(
    await keysOf({ AWS_ACCESS_KEY_ID: " a ", AWS_SECRET_ACCESS_KEY: "b", AWS_SESSION_TOKEN: "c" }),
    ["a", "b", "c"],
  );
});

Deno.test("where there are none, it says where they are looked for", async () => {
  assert.match(await refusal({}), /AWS_ACCESS_KEY_ID.*~\/\.aws.*role/);
});

Deno.test("profiles are read as the AWS command line reads them", async () => {
  await using home = await TempDir.make();
  await Deno.mkdir(home.join(".aws"));
  await Deno.writeTextFile(
    home.join(".aws/config"),
    `# a comment
[default]
region = eu-west-1
aws_access_key_id = from-config
aws_secret_access_key = x
s3 =
    addressing_style = path
[profile both]
aws_access_key_id = from-config
aws_secret_access_key = x
[profile program]
credential_process = sh -c 'printf "{\\"Version\\":1,\\"AccessKeyId\\":\\"printed\\",\\"SecretAccessKey\\":\\"p\\"}"'
[profile broken]
credential_process = sh -c "echo no luck >&2; exit 3"
[profile single]
sso_session = corp
[profile ring]
role_arn = arn:aws:iam::1:role/a
source_profile = ring2
[profile ring2]
role_arn = arn:aws:iam::1:role/b
source_profile = ring
`,
  );
  await Deno.writeTextFile(
    home.join(".aws/credentials"),
    "[both]\naws_access_key_id=from-credentials\naws_secret_access_key=y=z \n",
  );
  const env = { HOME: home.path };
  assert.deepEqual(await keysOf(env), ["from-config", "x", undefined]);
  assert.deepEqual(await keysOf({ ...env, AWS_PROFILE: "both" }), [
    "from-credentials",
    "y=z",
    undefined,
  ]);
  assert.deepEqual(await keysOf({ ...env, AWS_PROFILE: "program" }), ["printed", "p", undefined]);
  assert.match(await refusal({ ...env, AWS_PROFILE: "broken" }), /exited with 3: no luck/);
  assert.match(await refusal({ ...env, AWS_PROFILE: "single" }), /SSO.*export-credentials/);
  assert.match(await refusal({ ...env, AWS_PROFILE: "ring" }), /ring/);
  assert.match(await refusal({ ...env, AWS_PROFILE: "absent" }), /no AWS profile 'absent'/);
});

Deno.test("a profile names the region and the endpoint, too", async () => {
  await using fake = new FakeS3();
  await using home = await TempDir.make();
  await Deno.writeTextFile(
    home.join("config"),
    `[profile mine]\nregion = ap-south-1\nendpoint_url = ${fake.url}\naws_access_key_id = a\naws_secret_access_key = b\n`,
  );
  const env = { HOME: "/nonexistent", AWS_CONFIG_FILE: home.join("config"), AWS_PROFILE: "mine" };
  await using cas = await openS3({ url: "s3://bucket", env });
  await cas.put(noise(10));
  assert.match(fake.seen[0]?.headers.get("authorization") ?? "", /\/ap-south-1\/s3\//);
});

Deno.test("a container's credentials are asked for with its token, and asked for again", async () => {
  let asked = 0;
  await using server = serve({
    "GET /creds": (request) => {
      if (request.headers.get("authorization") !== "Bearer t") {
        return new Response(null, { status: 403 });
      }
      return json(`role ${++asked}`, new Date(Date.now() + 6 * 60_000));
    },
  });
  let ahead = 0;
  const clock = { ...systemClock, now: () => Date.now() + ahead };
  const env = {
    AWS_CONTAINER_CREDENTIALS_FULL_URI: `${server.url}/creds`,
    AWS_CONTAINER_AUTHORIZATION_TOKEN: "Bearer t",
  };
  using credentials = credentialsOf(env, clock);
  const id = async () => (await credentials.found.keys()).accessKeyId;
  assert.deepEqual(await Promise.all([id(), id(), id()]), ["role 1", "role 1", "role 1"]);
  assert.equal(await id(), "role 1");
  // They expire in five minutes: others are asked for before that.
  ahead = 61_000;
  assert.equal(await id(), "role 2");
  assert.match(await refusal({ ...env, AWS_CONTAINER_AUTHORIZATION_TOKEN: "x" }), /403/);
});

Deno.test("a container's credentials are not asked for at a stranger in clear", async () => {
  const env = { AWS_CONTAINER_CREDENTIALS_FULL_URI: "http://example.com/creds" };
  assert.match(await refusal(env), /must be https/);
});

Deno.test("a machine's role is asked for with a session token", async () => {
  const guarded = (answer: () => Response) => (request: Request) =>
    request.headers.get("x-aws-ec2-metadata-token") === "session"
      ? answer()
      : new Response(null, { status: 401 });
  await using server = serve({
    "PUT /latest/api/token": (request) =>
      request.headers.has("x-aws-ec2-metadata-token-ttl-seconds")
        ? new Response("session")
        : new Response(null, { status: 400 }),
    "GET /latest/meta-data/iam/security-credentials/": guarded(() => new Response("my-role\n")),
    "GET /latest/meta-data/iam/security-credentials/my-role": guarded(() => json("machine")),
  });
  const env = {
    AWS_EC2_METADATA_DISABLED: "false",
    AWS_EC2_METADATA_SERVICE_ENDPOINT: server.url,
  };
  assert.deepEqual(await keysOf(env), ["machine", "secret", "token of machine"]);
  assert.match(await refusal({ ...env, AWS_EC2_METADATA_DISABLED: "TRUE" }), /no AWS credentials/);
});

Deno.test("keys that expire while they are used are asked for again, once", async () => {
  let asked = 0;
  await using server = serve({
    "GET /creds": () => json(`role-${++asked}`, new Date(Date.now() + 3600_000)),
  });
  await using fake = new FakeS3();
  fake.hook = (seen) =>
    (seen.headers.get("authorization") ?? "").includes("role-2/")
      ? null
      : refuse(400, "ExpiredToken");
  const env = {
    ...s3Env(fake.url),
    AWS_ACCESS_KEY_ID: "",
    AWS_CONTAINER_CREDENTIALS_FULL_URI: `${server.url}/creds`,
  };
  await using cas = await openS3({ url: "s3://bucket", env, clock: hastyClock() });
  const data = noise(100);
  assert.deepEqual(await cas.get(await cas.put(data)), data);
  assert.equal(asked, 2);
  assert.equal(fake.seen[1]?.headers.get("x-amz-security-token"), "token of role-2");
});

Deno.test("a source of keys that is away does no harm while there are good ones", async () => {
  let away = false;
  await using server = serve({
    "GET /creds": () =>
      away ? new Response(null, { status: 503 }) : json("role", new Date(Date.now() + 6 * 60_000)),
  });
  let ahead = 0;
  const clock = { ...hastyClock(), now: () => Date.now() + ahead };
  const env = { AWS_CONTAINER_CREDENTIALS_FULL_URI: `${server.url}/creds` };
  using credentials = credentialsOf(env, clock);
  await credentials.found.keys();
  away = true;
  ahead = 2 * 60_000;
  assert.equal((await credentials.found.keys()).accessKeyId, "role");
  ahead = 10 * 60_000;
  await assert.rejects(credentials.found.keys(), (error) => isError(error, "unavailable"));
});

Deno.test("the words of a command are split as a shell does", () => {
  assert.deepEqual(
    splitWords(`/opt/a\\ b/tool  --x "two words" 'and "three" more' pre"fi"x "a\\"b"`),
    ["/opt/a b/tool", "--x", "two words", 'and "three" more', "prefix", 'a"b'],
  );
  assert.deepEqual(splitWords("  "), []);
});

const moto = needs(
  MOTO,
  "no moto_server on PATH or in SUBLET_TEST_MOTO: pip install 'moto[server]'",
);

Deno.test({
  name: `roles are taken from STS, with a token and with other keys${moto.suffix}`,
  ignore: moto.ignore,
  async fn() {
    await using server = await startMoto();
    await using home = await TempDir.make();
    await Deno.writeTextFile(home.join("token"), "a.b.c\n");
    const role = "arn:aws:iam::123456789012:role/sublet";
    const [id, secret, token] = await keysOf({
      AWS_ENDPOINT_URL_STS: server.url,
      AWS_ROLE_ARN: role,
      AWS_WEB_IDENTITY_TOKEN_FILE: home.join("token"),
    });
    assert.match(`${id} ${secret} ${token}`, /^ASIA\w+ \S+ \S+$/);
    await Deno.writeTextFile(
      home.join("config"),
      `[profile role]\nrole_arn = ${role}\nsource_profile = base\nexternal_id = e\n` +
        "[profile base]\naws_access_key_id = a\naws_secret_access_key = b\n",
    );
    const env = {
      AWS_ENDPOINT_URL: server.url,
      AWS_CONFIG_FILE: home.join("config"),
      AWS_PROFILE: "role",
      AWS_EC2_METADATA_DISABLED: "true",
      HOME: "/nonexistent",
    };
    assert.match((await keysOf(env))[0] ?? "", /^ASIA/);
    // And a bucket is used with them.
    await callS3(server.url, "PUT", "/roles");
    await using cas = await openS3({ url: "s3://roles", env });
    const data = noise(100);
    assert.deepEqual(await cas.get(await cas.put(data)), data);
  },
});
