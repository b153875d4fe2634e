// Where is my job?
import { useMemo } from "preact/hooks";
import { query } from "../api/client";
import type { Overview, Phase } from "../api/types";
import { Age, Empty, JobLink, now, PhaseBadge, Skeleton, Time, Trouble } from "../parts/basic";
import { count, duration, plural, words } from "../parts/format";
import { Grid } from "../parts/grid";
import { useAsk } from "../state/ask";
import { type JobRow, useListing } from "../state/listing";
import { go, params, setParams } from "../state/route";

const PHASES: readonly Phase[] = [
  "RUNNING",
  "PENDING",
  "WAITING",
  "STAGING",
  "RETRYING",
  "PREEMPTED",
  "SUCCEEDED",
  "FAILED",
  "CANCELLED",
  "SKIPPED",
  "UNKNOWN",
];
const HEADS = [
  { key: "name", label: "Job" },
  { key: "phase", label: "Phase" },
  { key: "why", label: "Where, or why not" },
  { key: "user", label: "By" },
  { key: "at", label: "Submitted", class: "num" },
  { key: "ran", label: "Ran", class: "num" },
] as const;
const TEXTS = [
  { key: "name", label: "Name", max: 128 },
  { key: "user", label: "User", max: 128 },
  { key: "node", label: "Node", max: 128 },
  { key: "label", label: "Label key=value", max: 256 },
] as const;

export function JobsPage() {
  const chosen = (params.value.get("phase") ?? "").split(",").filter(Boolean) as Phase[];
  const texts = TEXTS.map(({ key }) => params.value.get(key) ?? "");
  const filter = useMemo(() => {
    const [name, user, node, label] = texts;
    return query({ phase: chosen, name, user, node, label: label?.includes("=") ? [label] : undefined }).replace(
      "?",
      "&",
    );
  }, [chosen.join(), texts.join("\n")]);
  const listed = useListing(filter);
  const overview = useAsk<Overview>("/v1/overview", { on: "any" });
  const plain = texts.every((text) => !text);
  const total =
    plain && overview.data
      ? (chosen.length > 0 ? chosen : PHASES).reduce((sum, phase) => sum + (overview.data?.jobs[phase] ?? 0), 0)
      : -1;
  const toggle = (phase: Phase) => {
    const next = chosen.includes(phase) ? chosen.filter((each) => each !== phase) : [...chosen, phase];
    setParams({ phase: next.join(",") });
  };
  return (
    <div class="fill">
      <h1>Jobs</h1>
      <div class="filters" role="group" aria-label="Filters">
        <div class="chips" role="group" aria-label="Phases">
          {PHASES.map((phase) => (
            <button
              key={phase}
              type="button"
              class="chip"
              aria-pressed={chosen.includes(phase)}
              onClick={() => toggle(phase)}
            >
              <PhaseBadge phase={phase} />
              {overview.data ? <span class="num">{count(overview.data.jobs[phase] ?? 0)}</span> : null}
            </button>
          ))}
        </div>
        <div class="texts">
          {TEXTS.map(({ key, label, max }, at) => (
            <input
              key={key}
              type="text"
              aria-label={label}
              placeholder={label}
              maxLength={max}
              value={texts[at]}
              onChange={(event) => setParams({ [key]: event.currentTarget.value.trim() })}
            />
          ))}
          {chosen.length > 0 || !plain ? (
            <button type="button" class="quiet" onClick={() => go("/jobs")}>
              Clear
            </button>
          ) : null}
        </div>
      </div>
      <List listed={listed} total={total} filtered={chosen.length > 0 || !plain} />
    </div>
  );
}

function List(props: { listed: ReturnType<typeof useListing>; total: number; filtered: boolean }) {
  const { listed, total } = props;
  if (listed.rows.length === 0) {
    if (listed.problem) return <Trouble problem={listed.problem} again={listed.again} />;
    if (listed.loading) return <Skeleton rows={12} />;
    if (props.filtered) return <Empty title="No job is like this.">Take a filter away, or look at all jobs.</Empty>;
    return <Empty title="There are no jobs yet." command="ares submit --name hello -- echo hello" />;
  }
  return (
    <>
      {listed.problem ? (
        <p class="stale" role="status">
          <span aria-hidden="true">⚠</span> As of {duration(now.value - listed.at / 1000)} ago: {listed.problem.title}.
        </p>
      ) : null}
      <Grid
        label="Jobs"
        heads={HEADS}
        rows={listed.rows}
        total={listed.complete ? listed.rows.length : -1}
        rowHeight={34}
        keyOf={(row) => row.state.id}
        cells={cells}
        open={(row) => go(`/jobs/${row.state.id}`)}
        more={listed.more}
        foot={
          <>
            {listed.complete
              ? plural(listed.rows.length, "row")
              : `${plural(listed.rows.length, "row")} of more, the rest as you scroll`}
            {total > listed.rows.length ? (
              <span class="dim"> · {plural(total, "job")}, each task of an array counted</span>
            ) : null}
          </>
        }
      />
    </>
  );
}

function cells(row: JobRow) {
  const { state } = row;
  return [
    <>
      <JobLink id={state.id} name={state.name} /> <span class="mono dim small">{state.id.slice(0, 8)}</span>
    </>,
    <>
      <PhaseBadge phase={state.phase} />
      {row.counts ? <span class="dim small"> {tasks(row.counts)}</span> : null}
      {row.atRisk ? <span class="tag operator">at risk</span> : null}
    </>,
    <Where row={row} />,
    state.submittedBy || "–",
    <Time at={state.submittedAt} />,
    <Ran row={row} />,
  ];
}

function tasks(counts: Record<string, number>): string {
  const all = Object.values(counts).reduce((sum, each) => sum + each, 0);
  return `${count(counts.SUCCEEDED ?? 0)}/${count(all)}`;
}

export function Where({ row }: { row: JobRow }) {
  const { state, waiting } = row;
  if (waiting) {
    return (
      <span title={waiting.message}>
        <JobLink id={state.id} name={words(waiting.code)} tab="why" /> <span class="dim">{waiting.message}</span>
      </span>
    );
  }
  const nodes = [...new Set(state.placements.map((place) => place.node))];
  if (state.phase === "FAILED" || state.phase === "CANCELLED" || state.phase === "UNKNOWN")
    return (
      <span class="dim" title={state.exit?.message || state.reason}>
        {state.exit?.message || state.reason || nodes.join(", ")}
      </span>
    );
  return (
    <span class="dim">
      {nodes.length > 3
        ? `${nodes.slice(0, 3).join(", ")} and ${nodes.length - 3} more`
        : nodes.join(", ") || state.reason}
    </span>
  );
}

function Ran({ row }: { row: JobRow }) {
  const { startedAt, endedAt } = row.state;
  if (!startedAt) return <span class="dim">–</span>;
  return endedAt ? duration(endedAt - startedAt) : <Age at={startedAt} />;
}
