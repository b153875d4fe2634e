// Which GPUs are held, which of those compute, and which only cost?
import { useMemo, useState } from "preact/hooks";
import type { GpuMap } from "../api/types";
import { Empty, JobLink, Panel, Shown } from "../parts/basic";
import { count, mib, plural } from "../parts/format";
import { Grid } from "../parts/grid";
import { type Colour, Heatmap } from "../parts/heatmap";
import { useAsk } from "../state/ask";
import { go, href, params, setParams } from "../state/route";

// Of one group: a canvas has a largest height, and no person looks at more.
const NODES_DRAWN = 600;
type By = "pool" | "rack" | "model";
const HEADS = [
  { key: "name", label: "Node" },
  { key: "gpu", label: "GPU", class: "num" },
  { key: "phase", label: "Model" },
  { key: "state", label: "State" },
  { key: "busy", label: "Busy", class: "num" },
  { key: "gpu", label: "Draws", class: "num" },
  { key: "gpu", label: "Heat", class: "num" },
  { key: "why", label: "Job" },
] as const;

export function GpusPage() {
  const asked = useAsk<GpuMap>("/v1/gpus", { every: 6000 });
  return (
    <div class="fill">
      <h1>GPUs</h1>
      <Shown of={asked} rows={8}>
        {(map) =>
          map.index.length === 0 ? (
            <Empty title="No node has a GPU." command="ares up --mock-gpu dgx-a100">
              Machines with GPUs join with an agent; for a look around there are mock ones.
            </Empty>
          ) : (
            <Cells map={map} />
          )
        }
      </Shown>
    </div>
  );
}

interface Sums {
  all: number;
  held: number;
  idle: number;
  known: number;
  /** Watts of those that tell. */
  watts: number;
  away: number;
}

export function sums(map: GpuMap, nodes: readonly number[]): Sums {
  const found: Sums = { all: 0, held: 0, idle: 0, known: 0, watts: 0, away: 0 };
  for (const at of nodes) {
    const node = map.nodes[at];
    if (!node) continue;
    for (let gpu = node.first; gpu < node.first + node.gpus; gpu += 1) {
      const held = (map.heldMilli[gpu] ?? 0) > 0;
      const busy = map.busy[gpu] ?? -1;
      found.all += 1;
      found.held += held ? 1 : 0;
      found.known += held && busy >= 0 ? 1 : 0;
      found.idle += held && busy >= 0 && busy < 5 ? 1 : 0;
      found.watts += Math.max(0, map.watts[gpu] ?? -1);
      found.away += node.ready ? 0 : 1;
    }
  }
  return found;
}

function Cells({ map }: { map: GpuMap }) {
  const by = (params.value.get("by") ?? "pool") as By;
  const asTable = params.value.get("as") === "table";
  const asked = params.value.get("colour");
  const colour: Colour = asked === "job" || asked === "heat" ? asked : "activity";
  const [chosen, setChosen] = useState(-1);
  const [pointed, setPointed] = useState(-1);
  const groups = useMemo(() => grouped(map, by), [map, by]);
  const total = sums(
    map,
    map.nodes.map((_, at) => at),
  );
  const mock = map.nodes.some((node) => node.mock);
  return (
    <>
      <p class="sentence">
        {count(total.held)} of {plural(total.all, "GPU")} held
        {total.known > 0 ? `, ${count(total.idle)} of them idle` : ""}
        {total.watts > 0 ? `, drawing ${count(total.watts)} W by their drivers` : ""}
        {total.away > 0 ? `, ${count(total.away)} on silent nodes` : ""}.
        {total.held > total.known ? (
          <span class="dim">
            {" "}
            {mock
              ? "Mock GPUs have no activity to show."
              : `Of ${count(total.held - total.known)} held ones the activity is not known: of other tenants' jobs it is not told.`}
          </span>
        ) : null}
        {map.unasked.length > 0 ? (
          <span class="dim"> {plural(map.unasked.length, "node")} could not be asked.</span>
        ) : null}
      </p>
      <div class="filters">
        <div class="chips" role="group" aria-label="Grouped by">
          {(["pool", "rack", "model"] as const).map((each) => (
            <button
              key={each}
              type="button"
              class="chip"
              aria-pressed={by === each}
              onClick={() => setParams({ by: each === "pool" ? "" : each })}
            >
              by {each}
            </button>
          ))}
          {(["job", "heat"] as const).map((each) => (
            <button
              key={each}
              type="button"
              class="chip"
              aria-pressed={colour === each}
              onClick={() => setParams({ colour: colour === each ? "" : each })}
            >
              colour by {each}
            </button>
          ))}
          <button
            type="button"
            class="chip"
            aria-pressed={asTable}
            onClick={() => setParams({ as: asTable ? "" : "table" })}
          >
            as table
          </button>
        </div>
      </div>
      {asTable ? (
        <AsTable map={map} />
      ) : (
        <>
          <Legend colour={colour} />
          {[...groups].map(([name, nodes]) => {
            const part = sums(map, nodes);
            return (
              <Panel
                key={name}
                title={name || `no ${by}`}
                more={
                  <span class="num dim">
                    {count(part.held)} of {count(part.all)} held
                  </span>
                }
              >
                <Heatmap
                  map={map}
                  nodes={nodes.slice(0, NODES_DRAWN)}
                  chosen={chosen}
                  choose={setChosen}
                  point={setPointed}
                  open={(gpu) => openHolder(map, gpu)}
                  colour={colour}
                  lit={map.job[pointed >= 0 ? pointed : chosen] ?? -1}
                />
                {nodes.length > NODES_DRAWN ? (
                  <p class="dim small">
                    The first {count(NODES_DRAWN)} of {plural(nodes.length, "node")}.{" "}
                    <a href={href("/gpus?as=table")}>The table has all of them.</a>
                  </p>
                ) : null}
              </Panel>
            );
          })}
          <Chosen map={map} gpu={pointed >= 0 ? pointed : chosen} />
        </>
      )}
    </>
  );
}

export function grouped(map: GpuMap, by: By): Map<string, number[]> {
  const found = new Map<string, number[]>();
  map.nodes.forEach((node, at) => {
    const there = found.get(node[by]);
    if (there) there.push(at);
    else found.set(node[by], [at]);
  });
  return found;
}

function Legend({ colour }: { colour: Colour }) {
  if (colour === "heat")
    return (
      <ul class="legend" aria-label="Legend">
        <li>
          <span class="cell free" /> free
        </li>
        <li>
          <span class="cell held cold" /> below 50 °C, or not told
        </li>
        <li>
          <span class="cell held warm" /> 50 to 79 °C
        </li>
        <li>
          <span class="cell held hot">!</span> 80 °C and more
        </li>
        <li>by the drivers of GPUs that you may see; each says its own below</li>
      </ul>
    );
  if (colour === "job")
    return (
      <ul class="legend" aria-label="Legend">
        <li>
          <span class="cell free" /> free
        </li>
        <li>
          <span class="cell held cold" /> of another tenant
        </li>
        <li>a colour for each job; its GPUs hang together, point at one to see all of them</li>
      </ul>
    );
  return (
    <ul class="legend" aria-label="Legend">
      <li>
        <span class="cell free" /> free
      </li>
      <li>
        <span class="cell held cold" /> held, activity not known
      </li>
      <li>
        <span class="cell held cold">z</span> held and idle
      </li>
      <li>
        <span class="cell held warm" /> held, below 60 %
      </li>
      <li>
        <span class="cell held hot" /> held and busy
      </li>
      <li>
        <span class="cell free">⊘</span> cordoned
      </li>
      <li>
        <span class="cell free">✕</span> silent node
      </li>
    </ul>
  );
}

function nodeOf(map: GpuMap, gpu: number) {
  return map.nodes.find((node) => gpu >= node.first && gpu < node.first + node.gpus);
}

export function stateOf(map: GpuMap, gpu: number): string {
  const node = nodeOf(map, gpu);
  const held = map.heldMilli[gpu] ?? 0;
  const busy = map.busy[gpu] ?? -1;
  const words = [held === 0 ? "free" : held < 1000 ? `${held / 10} % held` : "held"];
  if (held > 0 && busy >= 0) words.push(busy < 5 ? "idle" : "busy");
  if (node && !node.ready) words.push("node silent");
  else if (node?.drained) words.push("draining");
  else if (node?.cordoned) words.push("cordoned");
  return words.join(", ");
}

/** The job that holds it, if it may be seen; else its node. */
function openHolder(map: GpuMap, gpu: number): void {
  const job = map.jobs[map.job[gpu] ?? -1];
  const node = nodeOf(map, gpu);
  if (job) go(`/jobs/${job.id}`);
  else if (node) go(`/nodes/${encodeURIComponent(node.name)}`);
}

function Holder({ map, gpu }: { map: GpuMap; gpu: number }) {
  const job = map.jobs[map.job[gpu] ?? -1];
  if (job)
    return (
      <>
        <JobLink id={job.id} name={job.name} /> <span class="dim">{job.user}</span>
      </>
    );
  return <span class="dim">{(map.heldMilli[gpu] ?? 0) > 0 ? "of another tenant" : ""}</span>;
}

/** A number of the driver's with its unit, or a dash where it tells none. */
export function told(value: number | undefined, unit: string): string {
  return value === undefined || value < 0 ? "–" : `${count(value)} ${unit}`;
}

/** " (93 %, 312 W, 71 °C)", of what the driver tells. */
export function reading(map: GpuMap, gpu: number): string {
  const all = [told(map.busy[gpu], "%"), told(map.watts[gpu], "W"), told(map.celsius[gpu], "°C")];
  const known = all.filter((each) => each !== "–");
  return known.length > 0 ? ` (${known.join(", ")})` : "";
}

function Chosen({ map, gpu }: { map: GpuMap; gpu: number }) {
  const node = nodeOf(map, gpu);
  return (
    <p class="chosen" role="status">
      {node ? (
        <>
          <a href={href(`/nodes/${encodeURIComponent(node.name)}`)}>{node.name}</a> GPU {map.index[gpu]}, {node.model}{" "}
          {mib(map.memoryMib[gpu] ?? 0)}: {stateOf(map, gpu)}
          {reading(map, gpu)} <Holder map={map} gpu={gpu} />
        </>
      ) : (
        <span class="dim">Point at a GPU, or choose one with the arrow keys, to see what it is and whose.</span>
      )}
    </p>
  );
}

function AsTable({ map }: { map: GpuMap }) {
  const rows = useMemo(() => map.index.map((_, gpu) => gpu), [map]);
  return (
    <Grid
      label="GPUs"
      heads={HEADS}
      rows={rows}
      total={rows.length}
      rowHeight={34}
      keyOf={(gpu) => String(gpu)}
      cells={(gpu) => [
        <a href={href(`/nodes/${encodeURIComponent(nodeOf(map, gpu)?.name ?? "")}`)}>{nodeOf(map, gpu)?.name}</a>,
        map.index[gpu],
        nodeOf(map, gpu)?.model,
        stateOf(map, gpu),
        told(map.busy[gpu], "%"),
        told(map.watts[gpu], "W"),
        told(map.celsius[gpu], "°C"),
        <Holder map={map} gpu={gpu} />,
      ]}
      open={(gpu) => openHolder(map, gpu)}
      foot={plural(rows.length, "GPU")}
    />
  );
}
