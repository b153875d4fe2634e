// Writes src/api/schema.d.ts from an OpenAPI document: of the operations that the dashboard calls, and no others.
//   node scripts/types.mjs DOCUMENT.json [TARGET.d.ts]
import { readFileSync, writeFileSync } from "node:fs";
import openapiTS, { astToString } from "openapi-typescript";

const [source, target = new URL("../src/api/schema.d.ts", import.meta.url).pathname] = process.argv.slice(2);
const document = JSON.parse(readFileSync(source, "utf8"));
const wanted = JSON.parse(readFileSync(new URL("../src/api/operations.json", import.meta.url), "utf8"));

const paths = {};
const missing = new Set(wanted);
for (const [path, item] of Object.entries(document.paths)) {
  for (const [method, operation] of Object.entries(item)) {
    if (missing.delete(operation.operationId)) {
      const { 200: ok, 201: made, 204: done } = operation.responses;
      const responses = Object.fromEntries(Object.entries({ 200: ok, 201: made, 204: done }).filter(([, it]) => it));
      paths[path] = { ...paths[path], [method]: { ...operation, responses } };
    }
  }
}
if (missing.size > 0) throw new Error(`the document has no ${[...missing].join(", ")}`);

// Only schemas that those operations reach.
const schemas = {};
const reach = (value) => {
  if (Array.isArray(value)) value.forEach(reach);
  else if (value && typeof value === "object") {
    for (const [key, item] of Object.entries(value)) {
      const name =
        key === "$ref" && typeof item === "string" && item.startsWith("#/components/schemas/")
          ? item.split("/").pop()
          : "";
      if (name && !(name in schemas)) {
        schemas[name] = document.components.schemas[name];
        reach(schemas[name]);
      } else if (!name) reach(item);
    }
  }
};
reach(paths);
const ast = await openapiTS({ ...document, paths, components: { schemas } }, { alphabetize: true });
const head = "// Written by scripts/types.mjs from the OpenAPI document: changes belong there.\n";
writeFileSync(target, head + astToString(ast));
