/** @module Tests of the API's document: that it is whole, and says what is served. */

import assert from "node:assert/strict";
import { ApiKit } from "./api_kit.ts";

// deno-lint-ignore no-explicit-any -- JSON of a document, walked
type Json = any;

async function documentOf(api: ApiKit): Promise<Json> {
  return (await api.owner("GET", "/v1/openapi.json")).json;
}

function* references(value: Json): Generator<string> {
  if (typeof value !== "object" || value === null) return;
  for (const [key, inner] of Object.entries(value)) {
    if (key === "$ref") yield String(inner);
    else yield* references(inner);
  }
}

Deno.test("the document has every route, each with a name of its own", async () => {
  await using api = await ApiKit.make();
  const { paths, openapi } = await documentOf(api);
  assert.equal(openapi, "3.1.0");
  const documented = Object.entries(paths).flatMap(([path, methods]) =>
    Object.keys(methods as object).map((method) => `${method} ${path}`)
  );
  const served = api.routes.map(({ method, path }) => `${method} ${path.replace("+}", "}")}`);
  assert.deepEqual(documented.sort(), served.sort());
  const names = Object.values(paths).flatMap((methods) =>
    Object.values(methods as object).map(({ operationId }) => operationId)
  );
  assert.equal(new Set(names).size, names.length);
});

Deno.test("every reference of the document is to something in it, and every schema is used", async () => {
  await using api = await ApiKit.make();
  const document = await documentOf(api);
  const used = new Set<string>();
  for (const reference of references(document)) {
    const [, id = ""] = /^#\/components\/schemas\/(\w+)$/.exec(reference) ?? [];
    assert.ok(Object.hasOwn(document.components.schemas, id), reference);
    used.add(id);
  }
  assert.deepEqual([...used].sort(), Object.keys(document.components.schemas).sort());
});

Deno.test("each parameter of a path is documented as required, and each refusal as an error", async () => {
  await using api = await ApiKit.make();
  const { paths } = await documentOf(api);
  for (const [path, methods] of Object.entries(paths as Json)) {
    const wanted = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
    for (const operation of Object.values(methods as Json) as Json[]) {
      const found = operation.parameters.filter((each: Json) => each.in === "path");
      assert.deepEqual(found.map((each: Json) => each.name), wanted, path);
      assert.ok(
        found.every((each: Json) => each.required === true && each.schema.type === "string"),
      );
      assert.deepEqual(
        operation.responses.default.content["application/json"].schema,
        { $ref: "#/components/schemas/Error" },
      );
    }
  }
});

Deno.test("the document says what a request for evaluations takes, and what an evaluation is", async () => {
  await using api = await ApiKit.make();
  const { schemas } = (await documentOf(api)).components;
  assert.deepEqual(schemas.EvaluationRequest.required, ["revisions"]);
  assert.equal(schemas.EvaluationRequest.properties.revisions.maxItems, 1000);
  for (
    const key of [
      "job",
      "evaluation",
      "campaign",
      "revision",
      "state",
      "metrics",
      "worker",
      "lease",
      "attempts",
      "seconds",
      "error",
      "files",
    ]
  ) {
    assert.ok(schemas.Evaluation.required.includes(key), key);
  }
});
