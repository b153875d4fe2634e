// Every call of the API, from the document that the server itself gives: what it takes, what it answers, who may.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Command, Empty, Rows, Shown } from "../parts/basic";
import {
  type ApiDocument,
  asCurl,
  inWords,
  type Listed,
  matches,
  operations,
  records,
  resolved,
  type Schema,
} from "../parts/document";
import { plural } from "../parts/format";
import { useAsk } from "../state/ask";
import { params, setParams } from "../state/route";
import { may } from "../state/session";

const RARELY = 3_600_000;

export function ReferencePage() {
  const asked = useAsk<ApiDocument>("/v1/openapi.json", { every: RARELY });
  return (
    <>
      <h1>API</h1>
      <Shown of={asked} rows={10}>
        {(document) => <Reference document={document} />}
      </Shown>
    </>
  );
}

function Reference({ document }: { document: ApiDocument }) {
  const text = params.value.get("q") ?? "";
  const all = useMemo(() => operations(document), [document]);
  const found = all.filter((listed) => matches(listed, text));
  const subjects = [...new Set(found.map((listed) => listed.subject))].sort();
  return (
    <>
      <p class="dim">
        {plural(all.length, "call")} of version {document.info.version}. Every path is also served below{" "}
        <code>/api</code>. In a program: <a href="/v1/openapi.json">the document itself</a>, the Python client, or gRPC.
      </p>
      <div class="filters">
        <input
          type="search"
          class="wide"
          aria-label="Find a call"
          placeholder="Find a call: jobs cancel, POST, quota:admin …"
          value={text}
          onInput={(event) => setParams({ q: event.currentTarget.value })}
        />
        <span class="dim" role="status">
          {text ? `${found.length} of ${all.length}` : ""}
        </span>
      </div>
      {found.length === 0 ? (
        <Empty title={`No call has ${text} in it.`}>
          <button type="button" onClick={() => setParams({ q: "" })}>
            Show all
          </button>
        </Empty>
      ) : null}
      {subjects.map((subject) => (
        <Subject
          key={subject}
          document={document}
          title={subject}
          calls={found.filter((listed) => listed.subject === subject)}
          isSought={text !== ""}
        />
      ))}
    </>
  );
}

/** Its calls are drawn when it is opened, by hand, by a search, or by a link to one of them. */
function Subject(props: { document: ApiDocument; title: string; calls: readonly Listed[]; isSought: boolean }) {
  const named = params.value.get("op");
  const isNamed = props.calls.some((listed) => listed.operation.operationId === named);
  const [isOpened, setOpened] = useState(isNamed);
  useEffect(() => {
    if (isNamed) setOpened(true);
  }, [isNamed]);
  const isOpen = isOpened || props.isSought;
  return (
    <details
      class="panel calls"
      open={isOpen}
      onToggle={(event) => {
        if (!props.isSought) setOpened(event.currentTarget.open);
      }}
    >
      <summary>
        <h2>{props.title}</h2> <span class="dim small">{plural(props.calls.length, "call")}</span>
      </summary>
      {isOpen
        ? props.calls.map((listed) => (
            <Call key={listed.operation.operationId} document={props.document} listed={listed} />
          ))
        : null}
    </details>
  );
}

/** Its parts are drawn when it is opened: there are hundreds of calls. The address names the one that is open. */
function Call({ document, listed }: { document: ApiDocument; listed: Listed }) {
  const { operation } = listed;
  const isOpen = params.value.get("op") === operation.operationId;
  const here = useRef<HTMLDetailsElement>(null);
  const first = useRef(true);
  useEffect(() => {
    // A link to it leads to it; a click leaves the page where it is.
    if (isOpen && first.current) here.current?.scrollIntoView({ block: "start" });
    first.current = false;
  }, [isOpen]);
  const needs = operation["x-ares-permission"] ?? "";
  return (
    <details
      ref={here}
      class="call"
      open={isOpen}
      onToggle={(event) => {
        if (event.currentTarget.open !== isOpen) setParams({ op: isOpen ? "" : operation.operationId });
      }}
    >
      <summary>
        <span class={`method method-${listed.method}`}>{listed.method}</span> <code>{listed.path}</code>{" "}
        <span class="dim">{operation.summary}</span>
      </summary>
      {isOpen ? (
        <div class="call-parts">
          {operation.description && operation.description !== operation.summary ? <p>{operation.description}</p> : null}
          <p class="small">
            <code>{operation.operationId}</code>. {allowed(needs)}
          </p>
          <Command text={asCurl(listed, window.location.origin)} />
          {listed.parameters.length > 0 ? <Parameters listed={listed} /> : null}
          {Object.entries(operation.requestBody?.content ?? {}).map(([kind, content]) => (
            <div key={kind}>
              <h3>Request</h3>
              {content.example === undefined ? null : (
                <pre tabIndex={0} role="region" aria-label="An example">
                  {JSON.stringify(content.example, null, 2)}
                </pre>
              )}
              <Value document={document} schema={content.schema ?? {}} kind={kind} />
            </div>
          ))}
          <h3>Answers</h3>
          {Object.entries(operation.responses ?? {}).map(([status, answer]) => (
            <Answer key={status} document={document} status={status} answer={answer} />
          ))}
        </div>
      ) : null}
    </details>
  );
}

function allowed(needs: string): string {
  if (!needs || needs === "public") return "No credential is needed.";
  if (!needs.includes(":")) return `Needs: ${needs}.`;
  return may(needs) ? `Needs ${needs}, which you have.` : `Needs ${needs}, which you do not have.`;
}

function Parameters({ listed }: { listed: Listed }) {
  return (
    <>
      <h3>Parameters</h3>
      <Rows label={`Parameters of ${listed.operation.operationId}`} heads={["Name", "In", "Is", "Meaning"]}>
        {listed.parameters.map((parameter) => (
          <tr key={`${parameter.in} ${parameter.name}`}>
            <th scope="row">
              <code>{parameter.name}</code>
              {parameter.required ? " (required)" : ""}
            </th>
            <td>{parameter.in}</td>
            <td>{inWords(parameter.schema ?? {})}</td>
            <td>{parameter.description ?? ""}</td>
          </tr>
        ))}
      </Rows>
    </>
  );
}

interface Said {
  description?: string;
  content?: Record<string, { schema?: Schema }>;
}

function Answer({ document, status, answer }: { document: ApiDocument; status: string; answer: Said }) {
  if (Number(status) >= 400) return <Refusal status={status} text={answer.description ?? ""} />;
  return (
    <div>
      <p>
        <span class="status-good">{status}</span> {answer.description}
      </p>
      {Object.entries(answer.content ?? {}).map(([kind, content]) => (
        <Value key={kind} document={document} schema={content.schema ?? {}} kind={kind} />
      ))}
    </div>
  );
}

/** What a refusal says is the same record everywhere: its codes tell them apart. A call may have a hundred of them. */
function Refusal({ status, text }: { status: string; text: string }) {
  const [isOpen, setOpen] = useState(false);
  const codes = text.split("; ").map((code) => code.split(": "));
  return (
    <details class="refusals" open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <span class="status-bad">{status}</span> <span class="dim small">{plural(codes.length, "code")}</span>
      </summary>
      {isOpen ? (
        <ul class="codes">
          {codes.map(([code = "", ...rest]) => (
            <li key={code}>
              <code>{code.replaceAll("`", "")}</code> <span class="dim">{rest.join(": ")}</span>
            </li>
          ))}
        </ul>
      ) : null}
    </details>
  );
}

function Value({ document, schema, kind }: { document: ApiDocument; schema: Schema; kind: string }) {
  return (
    <>
      <p class="small">
        <code>{kind}</code>: {inWords(schema)}
      </p>
      {records(schema).map((name) => (
        <RecordShape key={name} document={document} name={name} above={[]} isOpen />
      ))}
    </>
  );
}

/** A record's fields, drawn when it is opened: a job's record leads to a hundred others. Each opens the ones below it,
 *  but none that it lies in itself: records may hold each other. */
function RecordShape(props: { document: ApiDocument; name: string; above: readonly string[]; isOpen?: boolean }) {
  const { document, name, above } = props;
  const [isOpen, setOpen] = useState(props.isOpen ?? false);
  const schema = resolved(document, { $ref: `#/components/schemas/${name}` });
  return (
    <details class="record" open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <code>{name}</code> <span class="dim small">{schema.description ?? ""}</span>
      </summary>
      {isOpen ? <Fields document={document} name={name} schema={schema} above={[...above, name]} /> : null}
    </details>
  );
}

function Fields(props: { document: ApiDocument; name: string; schema: Schema; above: readonly string[] }) {
  const { document, name, schema, above } = props;
  const fields = Object.entries(schema.properties ?? {});
  const below = [...new Set([...records(schema), ...fields.flatMap(([, field]) => records(field))])];
  return (
    <>
      {fields.length > 0 ? (
        <Rows label={`Fields of ${name}`} heads={["Field", "Is", "Default", "Meaning"]}>
          {fields.map(([field, value]) => (
            <tr key={field}>
              <th scope="row">
                <code>{field}</code>
                {schema.required?.includes(field) ? " (required)" : ""}
              </th>
              <td>{inWords(value)}</td>
              <td>{value.default === undefined ? "" : <code>{JSON.stringify(value.default)}</code>}</td>
              <td>{value.description ?? ""}</td>
            </tr>
          ))}
        </Rows>
      ) : (
        <p class="small">{inWords(schema)}</p>
      )}
      {below
        .filter((other) => !above.includes(other))
        .map((other) => (
          <RecordShape key={other} document={document} name={other} above={above} />
        ))}
    </>
  );
}
