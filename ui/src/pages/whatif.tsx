// When would this run, where, and for how much? Asked of the same estimate that everything else is told from.
import { useEffect, useState } from "preact/hooks";
import { call, Problem } from "../api/client";
import type { Eta, PlanAnswer, PoolView } from "../api/types";
import { Command, Empty, Panel, Rows, Shown, Skeleton, Time, Trouble } from "../parts/basic";
import { count, mib, money, plural, when, words } from "../parts/format";
import { useAsk } from "../state/ask";
import { params, setParams } from "../state/route";

const FIELDS = [
  { key: "gpus", label: "GPUs", none: "1", step: "1", max: 1024 },
  { key: "ranks", label: "Ranks", none: "1", step: "1", max: 1024 },
  { key: "cpus", label: "CPUs", none: "1", step: "0.1", max: 4096 },
  { key: "memory", label: "Memory, GiB", none: "1", step: "0.1", max: 65_536 },
  { key: "hours", label: "Hours", none: "1", step: "0.1", max: 8760 },
] as const;

export function WhatIfPage() {
  const value = (key: string, none: string) => Number(params.value.get(key) ?? none);
  const [gpus, ranks, cpus, memory, hours] = FIELDS.map((field) => value(field.key, field.none)) as [
    number,
    number,
    number,
    number,
    number,
  ];
  const model = params.value.get("model") ?? "";
  const priority = params.value.get("priority") ?? "NORMAL";
  const [answer, setAnswer] = useState<PlanAnswer | undefined>();
  const [problem, setProblem] = useState<Problem | undefined>();
  const spec = JSON.stringify({
    command: ["true"],
    name: "what-if",
    priority,
    resources: {
      gpus,
      cpuMilli: Math.round(cpus * 1000),
      memoryMib: Math.round(memory * 1024),
      ...(model && gpus ? { gpuModel: model } : {}),
    },
    expectedRuntimeS: hours * 3600,
    ...(ranks > 1 ? { gang: { ranks } } : {}),
  });
  useEffect(() => {
    const aborting = new AbortController();
    const ask = () =>
      call<PlanAnswer>("POST", "/v1/plan", { spec: JSON.parse(spec) }, { signal: aborting.signal })
        .then((found) => {
          setAnswer(found);
          setProblem(undefined);
        })
        .catch((error: unknown) => {
          if (error instanceof Problem) setProblem(error);
        });
    void ask();
    const timer = window.setInterval(ask, 10_000);
    return () => {
      aborting.abort();
      window.clearInterval(timer);
    };
  }, [spec]);
  const command = [
    "ares plan",
    gpus ? `--gpus ${gpus}` : "",
    model && gpus ? `--gpu-model ${model}` : "",
    `--cpus ${cpus}`,
    `--memory ${memory}G`,
    `--runtime ${hours}h`,
    ranks > 1 ? `--ranks ${ranks}` : "",
    priority === "NORMAL" ? "" : `--priority ${priority.toLowerCase()}`,
    "-- python train.py",
  ]
    .filter(Boolean)
    .join(" ");
  return (
    <>
      <h1>What if</h1>
      <Panel title="A job like this">
        <div class="texts">
          {FIELDS.map((field) => (
            <label key={field.key} class="choice">
              {field.label}
              <input
                type="number"
                min="0"
                max={field.max}
                step={field.step}
                value={params.value.get(field.key) ?? field.none}
                onChange={(event) => setParams({ [field.key]: event.currentTarget.value })}
              />
            </label>
          ))}
          <label class="choice">
            GPU model
            <input
              type="text"
              maxLength={64}
              placeholder="any"
              value={model}
              onChange={(event) => setParams({ model: event.currentTarget.value.trim() })}
            />
          </label>
          <label class="choice">
            Priority
            <select value={priority} onChange={(event) => setParams({ priority: event.currentTarget.value })}>
              {["CRITICAL", "HIGH", "NORMAL", "LOW", "BEST_EFFORT"].map((each) => (
                <option key={each} value={each}>
                  {words(each)}
                </option>
              ))}
            </select>
          </label>
        </div>
        <p class="dim small below">
          Nothing is submitted. The same in a terminal: <Command text={command} />
        </p>
      </Panel>
      <Panel title="What would happen">
        {problem ? <Trouble problem={problem} /> : null}
        {answer ? <Answer answer={answer} /> : problem ? null : <Skeleton rows={4} />}
      </Panel>
      <Pools />
    </>
  );
}

function Answer({ answer }: { answer: PlanAnswer }) {
  return (
    <>
      <p class="lead">
        {answer.startsNow ? "It would start now." : (answer.reason?.message ?? "It would wait.")}{" "}
        {answer.startsNow ? null : (
          <span class={`tag ${answer.remedy ?? ""}`}>{answer.reason ? words(answer.reason.code) : "waits"}</span>
        )}
      </p>
      {answer.ahead > 0 ? (
        <p>
          {plural(answer.ahead, "job is", "jobs are")} ahead of it
          {answer.startsNow ? ", and none of them can use the room that it would take." : "."}
        </p>
      ) : null}
      {answer.change ? (
        <p>
          Smallest change: <b>{answer.change.message}</b>
        </p>
      ) : null}
      {answer.eviction ? (
        <p class="warn-text">
          It would make others leave: {count((answer.eviction.victims as unknown[] | undefined)?.length ?? 0)}.
        </p>
      ) : answer.noEviction ? (
        <p class="dim">No job would leave for it: {answer.noEviction}</p>
      ) : null}
      {answer.warnings.map((warning) => (
        <p key={warning} class="warn-text">
          {warning}
        </p>
      ))}
      {answer.offers.length > 0 ? (
        <Rows label="Ways to run it" heads={["Way", "Likely starts", "Per hour", "Where now", "Basis"]} numeric={[2]}>
          {answer.offers.map((offer) => (
            <tr key={offer.asked}>
              <td>{offer.asked || "as asked"}</td>
              <td>
                <Starts eta={offer.starts} />
              </td>
              <td class="num">{offer.priceHour === null ? "–" : money(offer.priceHour)}</td>
              <td>{[...new Set(offer.placements.map((place) => place.node))].slice(0, 4).join(", ") || "–"}</td>
              <td class="dim">{offer.starts.basis}</td>
            </tr>
          ))}
        </Rows>
      ) : null}
    </>
  );
}

/** Between when and when. Where no end can be said, a start that is only possible is not told as one. */
function Starts({ eta }: { eta: Pick<Eta, "earliest" | "latest" | "computedAt"> }) {
  const soon = eta.earliest - eta.computedAt < 2;
  if (eta.latest === null)
    return <span class="dim">{soon ? "cannot be said" : <>not before {when(eta.earliest)}</>}</span>;
  if (soon && eta.latest - eta.computedAt < 2) return <>now</>;
  return (
    <>
      {soon ? "now" : <Time at={eta.earliest} />} to <Time at={eta.latest} />
    </>
  );
}

/** Sizes one after another of which the same is said are one line. */
function alike(shapes: PoolView["shapes"]): [string, PoolView["shapes"][number]][] {
  const found: [string, PoolView["shapes"][number]][] = [];
  const said = (shape: PoolView["shapes"][number]) =>
    shape.starts ? `${shape.starts.earliest} ${shape.starts.latest}` : shape.never;
  for (const shape of shapes) {
    const last = found.at(-1);
    if (last && said(last[1]) === said(shape)) last[0] = `${last[0]}, ${shape.shape.words}`;
    else found.push([shape.shape.words, shape]);
  }
  return found;
}

function Pools() {
  const asked = useAsk<{ nodepools: PoolView[] }>("/v1/nodepools", { every: 15_000 });
  return (
    <Panel title="Pools">
      <Shown of={asked} rows={4}>
        {({ nodepools }) =>
          nodepools.length === 0 ? (
            <Empty title="There are no pools: no machine has joined." command="ares nodes" />
          ) : (
            <Rows
              label="Pools"
              heads={["Pool", "Nodes", "GPUs free", "Memory free", "Running", "Queued", "When sizes would start"]}
              numeric={[1, 2, 3, 4, 5]}
            >
              {nodepools.map((pool) => (
                <tr key={pool.name}>
                  <td>{pool.name}</td>
                  <td class="num">
                    {count(pool.readyNodes)} of {count(pool.nodes)}
                  </td>
                  <td class="num">
                    {count(pool.gpusFree)} of {count(pool.gpus)}
                  </td>
                  <td class="num">{mib(pool.memoryMibFree)}</td>
                  <td class="num">{count(pool.runningJobs)}</td>
                  <td class="num">{count(pool.pendingJobs)}</td>
                  <td>
                    <ul class="plain small">
                      {alike(pool.shapes).map(([names, shape]) => (
                        <li key={names}>
                          {names}:{" "}
                          {shape.starts ? (
                            <Starts eta={shape.starts} />
                          ) : (
                            <span class="dim">{shape.never || "never"}</span>
                          )}
                        </li>
                      ))}
                    </ul>
                  </td>
                </tr>
              ))}
            </Rows>
          )
        }
      </Shown>
    </Panel>
  );
}
