// Who did what, and who was refused?
import { query } from "../api/client";
import type { AuditPage as Entries } from "../api/types";
import { Empty, Rows, Shown, Time } from "../parts/basic";
import { useAsk } from "../state/ask";
import { params, setParams } from "../state/route";

const TEXTS = [
  ["who", "Who"],
  ["operation", "Operation"],
  ["object", "Object"],
] as const;

export function AuditPage() {
  const outcome = params.value.get("outcome") ?? "";
  const values = Object.fromEntries(TEXTS.map(([key]) => [key, params.value.get(key) ?? ""]));
  const asked = useAsk<Entries>(`/v1/audit${query({ limit: 200, outcome, ...values })}`, { every: 10_000 });
  return (
    <>
      <h1>Audit</h1>
      <div class="filters">
        <div class="chips" role="group" aria-label="Outcome">
          {["ALLOW", "DENY", "ERROR"].map((each) => (
            <button
              key={each}
              type="button"
              class="chip"
              aria-pressed={outcome === each}
              onClick={() => setParams({ outcome: outcome === each ? "" : each })}
            >
              {each.toLowerCase()}
            </button>
          ))}
        </div>
        <div class="texts">
          {TEXTS.map(([key, label]) => (
            <input
              key={key}
              type="text"
              aria-label={label}
              placeholder={label}
              maxLength={128}
              value={values[key]}
              onChange={(event) => setParams({ [key]: event.currentTarget.value.trim() })}
            />
          ))}
        </div>
      </div>
      <Shown of={asked} rows={10}>
        {(page) =>
          page.entries.length === 0 ? (
            <Empty title="No entry is like this." command="ares audit search --help">
              Entries are looked for on the replica that answers; each keeps its own chain.
            </Empty>
          ) : (
            <>
              <Rows label="Entries" heads={["At", "Who", "Outcome", "Operation", "Object", "From", "Why"]}>
                {page.entries.map((entry) => (
                  <tr key={`${entry.chain} ${entry.seq}`}>
                    <td>
                      <Time at={entry.at} />
                    </td>
                    <td>{entry.user || entry.token || "–"}</td>
                    <td>
                      <span
                        class={`tag ${entry.outcome === "DENY" ? "bad" : entry.outcome === "ERROR" ? "operator" : "good"}`}
                      >
                        {entry.outcome.toLowerCase()}
                      </span>
                    </td>
                    <td>{entry.operation || `${entry.method} ${entry.path}`}</td>
                    <td class="mono">{entry.object || entry.made.join(" ")}</td>
                    <td class="mono">{entry.remote}</td>
                    <td>{entry.reason || entry.glass}</td>
                  </tr>
                ))}
              </Rows>
              {page.cursor ? (
                <p class="dim small">The newest 200. Narrow it down, or use `ares audit search` for the rest.</p>
              ) : null}
            </>
          )
        }
      </Shown>
    </>
  );
}
