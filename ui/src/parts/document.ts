// The OpenAPI document as a reader wants it: operations by subject, and records in words.

export interface Schema {
  $ref?: string;
  type?: string | string[];
  title?: string;
  description?: string;
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  prefixItems?: Schema[];
  additionalProperties?: Schema | boolean;
  anyOf?: Schema[];
  oneOf?: Schema[];
  enum?: unknown[];
  const?: unknown;
  default?: unknown;
  format?: string;
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  minItems?: number;
  maxItems?: number;
}

export interface Parameter {
  name: string;
  in: string;
  description?: string;
  required?: boolean;
  schema?: Schema;
}

interface Content {
  schema?: Schema;
  example?: unknown;
}

export interface ApiOperation {
  operationId: string;
  summary?: string;
  description?: string;
  tags?: string[];
  parameters?: Parameter[];
  requestBody?: { content?: Record<string, Content> };
  responses?: Record<string, { description?: string; content?: Record<string, Content> }>;
  "x-ares-permission"?: string;
}

export interface ApiDocument {
  info: { title: string; version: string; description?: string };
  paths: Record<string, Record<string, ApiOperation | Parameter[]>>;
  components: { schemas: Record<string, Schema> };
}

export interface Listed {
  method: string;
  path: string;
  subject: string;
  operation: ApiOperation;
  /** Those of its path, and its own. */
  parameters: Parameter[];
}

const METHODS = ["get", "post", "put", "patch", "delete"];

/** In the document's order, by subject. */
export function operations(document: ApiDocument): Listed[] {
  const found: Listed[] = [];
  for (const [path, item] of Object.entries(document.paths)) {
    const shared = (item.parameters ?? []) as Parameter[];
    for (const method of METHODS) {
      const operation = item[method] as ApiOperation | undefined;
      if (!operation) continue;
      const subject = operation.tags?.[0] ?? "other";
      found.push({
        method: method.toUpperCase(),
        path,
        subject,
        operation,
        parameters: [...shared, ...(operation.parameters ?? [])],
      });
    }
  }
  return found;
}

/** Whether all words are in it, in whatever order. */
export function matches(listed: Listed, text: string): boolean {
  const { operation } = listed;
  const all = `${listed.method} ${listed.path} ${operation.operationId} ${operation.summary ?? ""} ${
    operation["x-ares-permission"] ?? ""
  }`.toLowerCase();
  return text
    .toLowerCase()
    .split(/\s+/)
    .every((word) => all.includes(word));
}

export const nameOf = (schema: Schema): string => schema.$ref?.split("/").pop() ?? "";

export function resolved(document: ApiDocument, schema: Schema): Schema {
  const name = nameOf(schema);
  return name ? (document.components.schemas[name] ?? {}) : schema;
}

/** What a value is, in a line: `integer, 0 to 1024`, `list of OutputFile`, `text or null`. */
export function inWords(schema: Schema): string {
  const name = nameOf(schema);
  if (name) return name;
  const either = schema.anyOf ?? schema.oneOf;
  if (either) return [...new Set(either.map(inWords))].join(" or ");
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  const type = Array.isArray(schema.type) ? schema.type.join(" or ") : (schema.type ?? "anything");
  if (type === "array") {
    const inner = schema.items ? inWords(schema.items) : (schema.prefixItems ?? []).map(inWords).join(", ");
    return `list of ${inner || "anything"}${bounds(schema.minItems, schema.maxItems, "items")}`;
  }
  if (type === "object" && typeof schema.additionalProperties === "object")
    return `map to ${inWords(schema.additionalProperties)}`;
  if (type === "string")
    return `text${schema.format ? ` (${schema.format})` : ""}${bounds(schema.minLength, schema.maxLength, "characters")}`;
  return `${type}${bounds(schema.minimum, schema.maximum, "")}`;
}

function bounds(low: number | undefined, high: number | undefined, of: string): string {
  const noun = of ? ` ${of}` : "";
  const show = (value: number) => value.toLocaleString("en-US", { maximumFractionDigits: 9 });
  if (low !== undefined && high !== undefined) return `, ${show(low)} to ${show(high)}${noun}`;
  if (high !== undefined) return `, at most ${show(high)}${noun}`;
  return low ? `, at least ${show(low)}${noun}` : "";
}

/** The records that a schema leads to at once, for those who want to know more. */
export function records(schema: Schema): string[] {
  const name = nameOf(schema);
  const parts = [
    ...(schema.anyOf ?? []),
    ...(schema.oneOf ?? []),
    ...(schema.items ? [schema.items] : []),
    ...(schema.prefixItems ?? []),
    ...(typeof schema.additionalProperties === "object" ? [schema.additionalProperties] : []),
  ];
  return [...new Set([...(name ? [name] : []), ...parts.flatMap(records)])];
}

/** A command that makes the call. */
export function asCurl(listed: Listed, origin: string): string {
  const path = listed.path.replace(/\{(\w+)\}/g, (_, name: string) => `$${name.toUpperCase()}`);
  const method = listed.method === "GET" ? "" : ` -X ${listed.method}`;
  const body = listed.operation.requestBody ? " -H 'Content-Type: application/json' -d @body.json" : "";
  return `curl${method} -H "Authorization: Bearer $ARES_TOKEN"${body} "${origin}${path}"`;
}
