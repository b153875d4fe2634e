// What waits, and why?
import { useEffect, useMemo } from "preact/hooks";
import type { Overview, Waiting } from "../api/types";
import { Age, Empty, JobLink, PhaseBadge, Shown, Skeleton, Time, Trouble } from "../parts/basic";
import { count, plural, words } from "../parts/format";
import { Grid } from "../parts/grid";
import { useAsk } from "../state/ask";
import { type JobRow, useListing } from "../state/listing";
import { go, params, setParams } from "../state/route";

const HEADS = [
  { key: "name", label: "Job" },
  { key: "reason", label: "Reason" },
  { key: "why", label: "In numbers" },
  { key: "eta", label: "Likely start" },
  { key: "wait", label: "Waits for", class: "num" },
] as const;
const SOME = 50;
const LOOKED_MAX = 5000;
const REMEDIES = [
  ["", "All"],
  ["yours", "Yours to change"],
  ["wait", "Others must end"],
  ["operator", "An operator's"],
] as const;

export function QueuePage() {
  const overview = useAsk<Overview>("/v1/overview", { on: "any" });
  const listed = useListing("&phase=PENDING&phase=WAITING&phase=RETRYING&phase=PREEMPTED&sort=submitted");
  const reason = params.value.get("reason") ?? "";
  const remedy = params.value.get("remedy") ?? "";
  const rows = useMemo(
    () =>
      listed.rows.filter(
        (row) => (!reason || row.waiting?.code === reason) && (!remedy || row.waiting?.remedy === remedy),
      ),
    [listed.rows, reason, remedy],
  );
  const { more, complete } = listed;
  const looked = listed.rows.length;
  useEffect(() => {
    // What is filtered here may be rare: it is looked for further down, but not for ever.
    if (rows.length < SOME && !complete && looked > 0 && looked < LOOKED_MAX) more();
  }, [rows.length, looked, complete, more]);
  return (
    <div class="fill">
      <h1>Queue</h1>
      <Shown of={overview} rows={2}>
        {(data) => (
          <div class="filters" role="group" aria-label="Reasons">
            <div class="chips">
              {REMEDIES.map(([key, label]) => (
                <button
                  key={key}
                  type="button"
                  class="chip"
                  aria-pressed={remedy === key}
                  onClick={() => setParams({ remedy: key })}
                >
                  {label}
                </button>
              ))}
            </div>
            <div class="chips">
              {data.waiting.map((group) => (
                <button
                  key={group.code}
                  type="button"
                  class={`chip ${group.remedy}`}
                  aria-pressed={reason === group.code}
                  title={group.message}
                  onClick={() => setParams({ reason: reason === group.code ? "" : group.code })}
                >
                  {words(group.code)} <span class="num">{count(group.jobs)}</span>
                </button>
              ))}
            </div>
          </div>
        )}
      </Shown>
      <List listed={listed} rows={rows} filtered={reason !== "" || remedy !== ""} />
    </div>
  );
}

function List({
  listed,
  rows,
  filtered,
}: {
  listed: ReturnType<typeof useListing>;
  rows: JobRow[];
  filtered: boolean;
}) {
  if (listed.rows.length === 0) {
    if (listed.problem) return <Trouble problem={listed.problem} again={listed.again} />;
    if (listed.loading) return <Skeleton rows={10} />;
    return <Empty title="Nothing waits." command="ares submit --gpus 1 --name hello -- nvidia-smi" />;
  }
  if (rows.length === 0 && listed.complete)
    return <Empty title={filtered ? "No job waits for this any more." : "Nothing waits."} />;
  return (
    <Grid
      label="Queue"
      heads={HEADS}
      rows={rows}
      total={listed.complete ? rows.length : -1}
      rowHeight={34}
      keyOf={(row) => row.state.id}
      cells={cells}
      open={(row) => go(`/jobs/${row.state.id}/why`)}
      more={listed.more}
      foot={
        <>
          {plural(rows.length, "job")}
          {listed.complete ? "" : filtered ? ` among the ${count(listed.rows.length)} that wait longest` : " and more"},
          the longest waiting first
        </>
      }
    />
  );
}

function cells({ state, waiting }: JobRow) {
  return [
    <>
      <JobLink id={state.id} name={state.name} tab="why" /> <span class="mono dim small">{state.id.slice(0, 8)}</span>
    </>,
    waiting ? <span class={`tag ${waiting.remedy}`}>{words(waiting.code)}</span> : <PhaseBadge phase={state.phase} />,
    <span class="dim" title={waiting?.message ?? state.reason}>
      {waiting?.message ?? state.reason}
    </span>,
    <Likely waiting={waiting} />,
    <Age at={state.queuedAt || state.submittedAt} />,
  ];
}

function Likely({ waiting }: { waiting: Waiting | undefined }) {
  if (!waiting) return <span class="dim">–</span>;
  if (waiting.remedy === "yours") return <span class="dim">never, as it is</span>;
  if (!waiting.eta) return <span class="dim">not known</span>;
  if (waiting.eta.latest === null && waiting.eta.earliest - waiting.eta.computedAt < 2)
    return (
      <span class="dim" title={waiting.eta.basis}>
        cannot be said
      </span>
    );
  return (
    <span title={waiting.eta.basis}>
      <Time at={waiting.eta.earliest} />
      {waiting.eta.latest ? (
        <>
          {" – "}
          <Time at={waiting.eta.latest} />
        </>
      ) : (
        " or later"
      )}
    </span>
  );
}
