// Is the platform itself well? Every part with its verdict, and how old that is.
import type { PlatformStatus } from "../api/types";
import { Panel, Rows, Shown } from "../parts/basic";
import { count, duration, words } from "../parts/format";
import { useAsk } from "../state/ask";
import { href } from "../state/route";

const SIGNS = { ok: ["good", "✓ ok"], warn: ["operator", "! warn"], bad: ["bad", "✕ bad"] } as const;
const WHOLE = { ok: "All is well.", warn: "Something needs a look.", bad: "Something is broken." } as const;
const PLACES: Record<string, string> = { nodes: "/nodes", node: "/nodes", alerts: "/alerts" };

export function HealthPage() {
  const asked = useAsk<PlatformStatus>("/v1/status", { every: 5000 });
  return (
    <>
      <h1>Health</h1>
      <Shown of={asked} rows={8}>
        {(status) => (
          <>
            <p class={`verdict ${status.verdict === "ok" ? "good" : status.verdict}`}>
              <span aria-hidden="true">{SIGNS[status.verdict][1].slice(0, 1)}</span> {WHOLE[status.verdict]} Cluster{" "}
              <b>{status.cluster}</b>, as replica <b>{status.replica}</b> sees it. `ares status` says the same.
            </p>
            <Panel title="Parts" more={<span class="dim">what is not well comes first</span>}>
              <Rows label="Parts" heads={["Verdict", "Part", "Name", "What", "Newest sign"]}>
                {status.parts.map((part) => (
                  <tr key={`${part.kind} ${part.name} ${part.message}`}>
                    <td>
                      <span class={`tag ${SIGNS[part.verdict][0]}`}>{SIGNS[part.verdict][1]}</span>
                    </td>
                    <td>{words(part.kind)}</td>
                    <td>{PLACES[part.kind] ? <a href={href(placeOf(part))}>{part.name}</a> : part.name}</td>
                    <td>{part.message}</td>
                    <td>{part.ageS === null ? "–" : `${duration(part.ageS)} ago`}</td>
                  </tr>
                ))}
              </Rows>
              {status.leftOut > 0 ? <p class="dim small">{count(status.leftOut)} more are not well.</p> : null}
            </Panel>
          </>
        )}
      </Shown>
    </>
  );
}

function placeOf(part: PlatformStatus["parts"][number]): string {
  const place = PLACES[part.kind] ?? "/";
  return part.kind === "node" ? `${place}/${encodeURIComponent(part.name)}` : place;
}
