// A period for a meeting, an auditor or a file.
import { useState } from "preact/hooks";
import { call, type Problem } from "../api/client";
import type { CostReport } from "../api/types";
import { Command, Panel, Shown, Trouble } from "../parts/basic";
import { save } from "../parts/download";
import { useAsk } from "../state/ask";
import { params, setParams } from "../state/route";
import { may } from "../state/session";

const KINDS = [
  { kind: "sla", title: "SLA", needs: "jobs:read", what: "Promises met and missed, waits, what was missed and why." },
  { kind: "cost", title: "Cost", needs: "jobs:read", what: "Cost, energy and GPU-hours by day, tenant, pool, model." },
  {
    kind: "compliance",
    title: "Compliance",
    needs: "audit:read",
    what: "Requests, denials, changes of rules and access, and whether the audit chains hold.",
  },
] as const;
const FORMATS = ["html", "csv", "json"] as const;
const DAY_MS = 86_400_000;
const dayOf = (at: number) => new Date(at).toISOString().slice(0, 10);

export function ReportsPage() {
  const today = Date.now();
  const books = useAsk<CostReport>("/v1/cost?by=day&limit=1", { every: 60_000 });
  const first = params.value.get("first") || dayOf(today - 7 * DAY_MS);
  const last = params.value.get("last") || dayOf(today - DAY_MS);
  return (
    <>
      <h1>Reports</h1>
      <div class="filters">
        <div class="texts">
          {(
            [
              ["first", "First day", first],
              ["last", "Last day", last],
            ] as const
          ).map(([key, label, value]) => (
            <label key={key}>
              {label} (UTC){" "}
              <input
                type="date"
                value={value}
                max={dayOf(today)}
                onChange={(event) => setParams({ [key]: event.currentTarget.value })}
              />
            </label>
          ))}
        </div>
      </div>
      <Shown of={books} rows={2}>
        {(report) => (
          <p class={last <= report.closedDay && first >= report.booksSince ? "" : "stale"}>
            {report.closedDay
              ? `Books are closed from ${report.booksSince} to ${report.closedDay}. `
              : "No day is closed yet. "}
            {last > report.closedDay ? "Of days that are not closed, a report tells what is known so far. " : ""}
            {report.booksSince && first < report.booksSince ? "Nothing is known of the days before. " : ""}
          </p>
        )}
      </Shown>
      <div class="grid">
        {KINDS.filter((each) => may(each.needs)).map((each) => (
          <Report key={each.kind} {...each} first={first} last={last} />
        ))}
      </div>
      <p class="dim small">
        Figures come from the daily books. Made again of days that are closed, a report is the same to the byte; its
        SHA-256 and the heads of the audit chains are in its footer, and that it was made is in the audit log.
      </p>
    </>
  );
}

function Report(props: { kind: string; title: string; what: string; first: string; last: string }) {
  const [busy, setBusy] = useState("");
  const [problem, setProblem] = useState<Problem | undefined>();
  const make = async (format: (typeof FORMATS)[number]) => {
    setBusy(format);
    try {
      const body = { first: props.first, last: props.last, format };
      const text = await call<string>("POST", `/v1/reports/${props.kind}`, body, { text: true });
      save(text, `${props.kind}-${props.first}-${props.last}.${format}`);
      setProblem(undefined);
    } catch (error) {
      setProblem(error as Problem);
    }
    setBusy("");
  };
  return (
    <Panel title={props.title}>
      <p>{props.what}</p>
      <div class="actions">
        {FORMATS.map((format) => (
          <button
            key={format}
            type="button"
            disabled={busy !== ""}
            aria-label={`${props.title} as ${format.toUpperCase()}`}
            onClick={() => void make(format)}
          >
            {busy === format ? "Making it …" : format.toUpperCase()}
          </button>
        ))}
      </div>
      {problem ? <Trouble problem={problem} /> : null}
      <Command text={`ares report ${props.kind} --first ${props.first} --last ${props.last} --to ${props.kind}.html`} />
    </Panel>
  );
}
