// What does it cost, what came of it, and what stood idle? From the daily books.
import { query } from "../api/client";
import type { BudgetProjection, CostReport, CostRow } from "../api/types";
import { Ages, Silences } from "../parts/ages";
import { Empty, Facts, JobLink, Meter, Panel, Rows, Shown } from "../parts/basic";
import { Chart } from "../parts/chart";
import { amount, count, money, plural, words } from "../parts/format";
import { useAsk } from "../state/ask";
import { params, setParams } from "../state/route";

const GROUPS = ["day", "tenant", "team", "pool", "gpu-model", "cluster", "job"] as const;
const PERIODS: readonly [string, number, string][] = [
  ["7d", 7, "7 days"],
  ["30d", 30, "30 days"],
  ["90d", 90, "90 days"],
];
const DAY_MS = 86_400_000;

/** As the books have it: a day of UTC. */
export const dayOf = (at: number) => new Date(at).toISOString().slice(0, 10);

export function CostPage() {
  const by = params.value.get("by") ?? "day";
  const since = params.value.get("since") ?? "7d";
  const days = PERIODS.find(([name]) => name === since)?.[1] ?? 7;
  const first = dayOf(Date.now() - (days - 1) * DAY_MS);
  const asked = useAsk<CostReport>(`/v1/cost${query({ by, first, last: dayOf(Date.now()), limit: 200 })}`, {
    every: 30_000,
  });
  return (
    <>
      <h1>Cost</h1>
      <div class="filters">
        <div class="chips" role="group" aria-label="Period">
          {PERIODS.map(([name, , label]) => (
            <button
              key={name}
              type="button"
              class="chip"
              aria-pressed={name === since}
              onClick={() => setParams({ since: name === "7d" ? "" : name })}
            >
              {label}
            </button>
          ))}
        </div>
        <div class="chips" role="group" aria-label="By">
          {GROUPS.map((each) => (
            <button
              key={each}
              type="button"
              class="chip"
              aria-pressed={each === by}
              onClick={() => setParams({ by: each === "day" ? "" : each })}
            >
              by {words(each).replace(/^[A-Z](?![A-Z])/, (letter) => letter.toLowerCase())}
            </button>
          ))}
        </div>
      </div>
      <Shown of={asked} rows={8}>
        {(report) => (
          <>
            <Silences clusters={report.clusters} now={report.at} />
            <Total report={report} />
            <Panel title={words(report.by)} more={<span class="dim">{plural(report.groups, "group")}</span>}>
              {report.rows.length === 0 ? (
                <Empty title="Nothing was used in this time." command="ares cost" />
              ) : (
                <>
                  {report.by === "day" && report.rows.length > 1 ? <Days report={report} /> : null}
                  <Groups report={report} />
                </>
              )}
            </Panel>
          </>
        )}
      </Shown>
      <Budgets />
      {asked.data ? <Ages clusters={asked.data.clusters} now={asked.data.at} /> : null}
    </>
  );
}

const hours = (value: number) => `${amount(value)} GPU-h`;

function Total({ report }: { report: CostReport }) {
  const { total } = report;
  const sum = (value: number) => (report.currency ? `${money(value)} ${report.currency}` : money(value));
  const held = total.usefulGpuHours + total.lostGpuHours + total.runningGpuHours;
  return (
    <Panel
      title={`${report.firstDay} to ${report.lastDay}`}
      more={<span class="dim">{report.closedDay ? `closed up to ${report.closedDay}` : "no day is closed yet"}</span>}
    >
      <p class="lead">
        Jobs cost {sum(total.cost)}
        {report.whole ? `; ${sum(total.idleCost)} stood idle of ${sum(total.capacityCost)} in all` : ""}.
      </p>
      <Meter
        label="Useful, of what jobs held"
        part={total.usefulGpuHours}
        all={held}
        tone="good"
        text={`${hours(total.usefulGpuHours)} of ${hours(held)}`}
      />
      <Meter
        label="Lost: repeated, or of jobs that failed"
        part={total.lostGpuHours}
        all={held}
        tone="warn"
        text={hours(total.lostGpuHours)}
      />
      {report.whole ? (
        <Meter
          label="Idle, of all GPUs"
          part={total.idleGpuHours}
          all={total.capacityGpuHours}
          text={`${hours(total.idleGpuHours)} of ${hours(total.capacityGpuHours)}`}
        />
      ) : null}
      <p class="dim small">
        {amount(total.energyKwh)} kWh by the power model
        {report.whole ? `, ${amount(total.idleEnergyKwh)} kWh idle` : ""}.
        {report.remarks
          .filter((remark) => !/^cluster \S+ is silent/.test(remark))
          .map((remark) => ` ${remark.charAt(0).toUpperCase()}${remark.slice(1)}.`.replace("..", "."))}
      </p>
    </Panel>
  );
}

function Days({ report }: { report: CostReport }) {
  const rows = [...report.rows].sort((a, b) => (a.key < b.key ? -1 : 1));
  const lines = [
    { label: "useful", points: rows.map((row) => row.usefulGpuHours) },
    { label: "lost", points: rows.map((row) => row.lostGpuHours) },
    ...(report.whole ? [{ label: "idle", points: rows.map((row) => row.idleGpuHours) }] : []),
  ];
  const since = Date.parse(`${rows[0]?.key}T00:00:00Z`) / 1000;
  return <Chart title="GPU-hours by day" lines={lines} since={since} stepS={DAY_MS / 1000} format={amount} />;
}

function Groups({ report }: { report: CostReport }) {
  const heads = ["Jobs", "Useful GPU-h", "Lost", "Running", ...(report.whole ? ["Idle"] : []), "Cost", "kWh"];
  return (
    <Rows label="Cost" heads={[words(report.by), ...heads]} numeric={heads.map((_, at) => at + 1)}>
      {report.rows.map((row) => (
        <tr key={row.key}>
          <td>{report.by === "job" ? <JobLink id={row.key} name={row.name} /> : row.key || "–"}</td>
          {figures(row, report.whole).map((text, at) => (
            <td key={at} class="num">
              {text}
            </td>
          ))}
        </tr>
      ))}
    </Rows>
  );
}

function figures(row: CostRow, whole: boolean): string[] {
  return [
    count(row.jobs),
    amount(row.usefulGpuHours),
    amount(row.lostGpuHours),
    amount(row.runningGpuHours),
    ...(whole ? [amount(row.idleGpuHours)] : []),
    money(row.cost),
    amount(row.energyKwh),
  ];
}

function Budgets() {
  const asked = useAsk<{ budgets: BudgetProjection[] }>("/v1/cost/budgets", { every: 60_000 });
  return (
    <Panel title="Budgets of this month">
      <Shown of={asked} rows={3}>
        {({ budgets }) =>
          budgets.length === 0 ? (
            <Empty title="No tenant has spent anything, or has a budget." command="ares quota set --help" />
          ) : (
            <div class="grid">
              {budgets.slice(0, 50).map((budget) => (
                <Budget key={budget.tenant} budget={budget} />
              ))}
            </div>
          )
        }
      </Shown>
    </Panel>
  );
}

function Budget({ budget }: { budget: BudgetProjection }) {
  const limit = budget.budget;
  return (
    <div>
      <h3>{budget.tenant}</h3>
      <Meter
        label={`Spent in ${budget.month}`}
        part={budget.spent}
        all={limit ?? 0}
        tone={limit !== null && (budget.projected ?? budget.spent) > limit ? "warn" : "good"}
        text={
          limit === null
            ? `${money(budget.spent)} ${budget.currency}, no budget`
            : `${money(budget.spent)} of ${money(limit)} ${budget.currency}`
        }
      />
      <Facts
        facts={[
          [
            "Projected",
            budget.projected === null
              ? budget.why || "–"
              : `${money(budget.projected)}, four of five times between ${money(budget.projectedLow ?? 0)} and ${money(budget.projectedHigh ?? 0)}`,
          ],
          ...(budget.usedUpOn ? ([["Used up on", budget.usedUpOn]] as const) : []),
        ]}
      />
    </div>
  );
}
