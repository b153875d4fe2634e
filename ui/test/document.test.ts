import { expect, test } from "vitest";
import { type ApiDocument, asCurl, inWords, matches, operations, records } from "../src/parts/document";

const DOCUMENT: ApiDocument = {
  info: { title: "Ares", version: "1" },
  paths: {
    "/v1/jobs/{id}/cancel": {
      parameters: [{ name: "id", in: "path", required: true, schema: { type: "string" } }],
      post: {
        operationId: "cancelJob",
        summary: "Cancel a job.",
        tags: ["jobs"],
        "x-ares-permission": "jobs:cancel",
        requestBody: { content: { "application/json": { schema: { $ref: "#/components/schemas/Why" } } } },
      },
    },
    "/v1/nodes": { get: { operationId: "listNodes", tags: ["nodes"] } },
  },
  components: { schemas: { Why: { type: "object", properties: { reason: { type: "string" } } } } },
};

test("every operation is listed with the parameters of its path", () => {
  const found = operations(DOCUMENT);
  expect(found.map((listed) => [listed.method, listed.path, listed.subject])).toEqual([
    ["POST", "/v1/jobs/{id}/cancel", "jobs"],
    ["GET", "/v1/nodes", "nodes"],
  ]);
  expect(found[0]?.parameters.map((parameter) => parameter.name)).toEqual(["id"]);
});

test("a call is found by words in any order, of method, path, name, summary or permission", () => {
  const [cancel, nodes] = operations(DOCUMENT);
  for (const text of ["", "cancel jobs", "POST", "canceljob", "jobs:cancel a job"])
    expect(cancel && matches(cancel, text)).toBe(true);
  expect(nodes && matches(nodes, "cancel")).toBe(false);
});

test("values are told in words, with their bounds", () => {
  expect(inWords({ type: "integer", minimum: 0, maximum: 1024 })).toBe("integer, 0 to 1,024");
  expect(inWords({ anyOf: [{ type: "string", maxLength: 64 }, { type: "null" }] })).toBe(
    "text, at most 64 characters or null",
  );
  expect(inWords({ type: "array", items: { $ref: "#/components/schemas/Why" } })).toBe("list of Why");
  expect(inWords({ type: "object", additionalProperties: { type: "boolean" } })).toBe("map to boolean");
  expect(inWords({ enum: ["a", "b"] })).toBe('"a" | "b"');
  expect(inWords({})).toBe("anything");
});

test("records that a value leads to are named once", () => {
  const why = { $ref: "#/components/schemas/Why" };
  expect(records({ anyOf: [why, { type: "array", items: why }, { type: "null" }] })).toEqual(["Why"]);
});

test("a command makes the call", () => {
  const [cancel, nodes] = operations(DOCUMENT);
  expect(cancel && asCurl(cancel, "http://h")).toBe(
    `curl -X POST -H "Authorization: Bearer $ARES_TOKEN" -H 'Content-Type: application/json' -d @body.json "http://h/v1/jobs/$ID/cancel"`,
  );
  expect(nodes && asCurl(nodes, "http://h")).toBe(`curl -H "Authorization: Bearer $ARES_TOKEN" "http://h/v1/nodes"`);
});
