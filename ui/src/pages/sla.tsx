// Are promises kept, and which jobs are about to break one?
import { query } from "../api/client";
import type { SlaList, SlaView } from "../api/types";
import { Ages, Silences } from "../parts/ages";
import { Empty, JobLink, Meter, Panel, Rows, Shown } from "../parts/basic";
import { amount, count, duration, plural } from "../parts/format";
import { useAsk } from "../state/ask";
import { href, params, setParams } from "../state/route";

const TIMES: readonly [string, number | undefined, string][] = [
  ["1d", 86_400, "day"],
  ["7d", 7 * 86_400, "week"],
  ["30d", 30 * 86_400, "30 days"],
  ["all", undefined, "all that is kept"],
];

export function SlaPage() {
  const chosen = params.value.get("since") ?? "1d";
  const by = params.value.get("by") ?? "";
  const sinceS = TIMES.find(([name]) => name === chosen)?.[1];
  const asked = useAsk<SlaList>(`/v1/sla${query({ sinceS, by: by || undefined })}`, { every: 15_000 });
  return (
    <>
      <h1>SLA</h1>
      <div class="chips" role="group" aria-label="Period">
        {TIMES.map(([name, , label]) => (
          <button
            key={name}
            type="button"
            class="chip"
            aria-pressed={name === chosen}
            onClick={() => setParams({ since: name === "1d" ? "" : name })}
          >
            {label}
          </button>
        ))}
        {(["tenant", "cluster"] as const).map((each) => (
          <button
            key={each}
            type="button"
            class="chip"
            aria-pressed={by === each}
            onClick={() => setParams({ by: by === each ? "" : each })}
          >
            by {each}
          </button>
        ))}
      </div>
      <Shown of={asked} rows={8}>
        {({ classes, clusters, at }) => (
          <>
            <Silences clusters={clusters} now={at} />
            <Classes classes={classes} />
            <Ages clusters={clusters} now={at} />
          </>
        )}
      </Shown>
    </>
  );
}

function Classes({ classes }: { classes: readonly SlaView[] }) {
  return classes.length === 0 ? (
    <Empty title="No job had a deadline in this time." command="ares submit --deadline 2h -- python train.py">
      A deadline is given with a job, or by a class of service.
    </Empty>
  ) : (
    <>
      <AtRisk classes={classes} />
      <div class="grid">
        {classes.map((service) => (
          <Service key={keyOf(service)} service={service} />
        ))}
      </div>
    </>
  );
}

const keyOf = (service: SlaView) => `${service.name} ${service.tenant ?? ""} ${service.cluster ?? ""}`;

export const serviceName = (service: SlaView) => service.name || "own deadlines";

function AtRisk({ classes }: { classes: readonly SlaView[] }) {
  const risky = classes.filter((service) => service.atRisk > 0);
  if (risky.length === 0) return <p class="verdict good">✓ No open deadline is at risk by the estimates.</p>;
  return (
    <Panel title="At risk now" more={<a href={href("/jobs")}>Jobs</a>}>
      <Rows label="Jobs at risk" heads={["Class", "Jobs that will miss it by the estimates"]}>
        {risky.map((service) => (
          <tr key={keyOf(service)}>
            <td>
              {serviceName(service)}
              {service.tenant ? ` of ${service.tenant}` : service.cluster ? ` in ${service.cluster}` : ""}
            </td>
            <td>
              {service.atRiskJobs.map((id, at) => (
                <span key={id}>
                  {at > 0 ? ", " : ""}
                  <JobLink id={id} tab="why" />
                </span>
              ))}
              {service.atRisk > service.atRiskJobs.length
                ? ` and ${count(service.atRisk - service.atRiskJobs.length)} more`
                : ""}
            </td>
          </tr>
        ))}
      </Rows>
    </Panel>
  );
}

function Service({ service }: { service: SlaView }) {
  const decided = service.met + service.missed;
  return (
    <Panel
      title={[serviceName(service), service.tenant ?? service.cluster].filter(Boolean).join(" · ")}
      more={<span class="dim">{promise(service)}</span>}
    >
      <Kept service={service} />
      <p class="dim small">
        {decided === 0
          ? "None was decided in this time. "
          : `${plural(service.missed, "deadline was", "deadlines were")} missed of ${count(decided)}. `}
        {plural(service.open, "is", "are")} open, {count(service.atRisk)} of them at risk.
      </p>
    </Panel>
  );
}

function promise(service: SlaView): string {
  return [
    service.startWithinS === null ? "" : `starts within ${duration(service.startWithinS)}`,
    service.endWithinS === null ? "" : `ends within ${duration(service.endWithinS)}`,
  ]
    .filter(Boolean)
    .join(", ");
}

/** How many met it, against the target, and what is left of the budget of misses. */
export function Kept({ service }: { service: SlaView }) {
  const met = service.metPercent;
  const left = service.budgetLeftPercent;
  return (
    <>
      <Meter
        label={`Met, target ${amount(service.targetPercent)} %`}
        part={met ?? 0}
        all={100}
        tone={met === null ? "" : met >= service.targetPercent ? "good" : "warn"}
        text={met === null ? "not decided yet" : `${amount(met)} %`}
      />
      <Meter
        label="Budget of misses left"
        part={Math.max(0, left ?? 0)}
        all={100}
        tone={left === null ? "" : left > 25 ? "good" : "warn"}
        text={left === null ? "–" : left < 0 ? `overdrawn: ${amount(left)} %` : `${amount(left)} %`}
      />
    </>
  );
}
