// What happened to it, entry by entry.
import type { LedgerEvent } from "../api/types";
import { Empty, Panel, Rows, Shown, Time } from "../parts/basic";
import { duration, plural, words } from "../parts/format";
import { useAsk } from "../state/ask";

export function EventsTab({ id }: { id: string }) {
  const asked = useAsk<{ events: LedgerEvent[] }>(`/v1/jobs/${encodeURIComponent(id)}/events`, { on: id, every: 5000 });
  return (
    <Shown of={asked} rows={8}>
      {({ events }) =>
        events.length === 0 ? (
          <Empty title="An array has no ledger of its own." command={`ares jobs --array ${id}`} />
        ) : (
          <Panel title="Ledger" more={<span class="dim">{plural(events.length, "event")}</span>}>
            <Rows label="Ledger" heads={["At", "After", "What", "Attempt", "By", "Why"]} numeric={[3]}>
              {events.map((event, at) => (
                <tr key={event.seq}>
                  <td>
                    <Time at={event.at} />
                  </td>
                  <td class="dim">{at === 0 ? "" : `+${duration(event.at - (events[at - 1]?.at ?? event.at))}`}</td>
                  <td>{words(event.kind)}</td>
                  <td class="num">{event.attempt || ""}</td>
                  <td>{event.by}</td>
                  <td>{event.reason}</td>
                </tr>
              ))}
            </Rows>
          </Panel>
        )
      }
    </Shown>
  );
}
