// The keyboard: one place that knows every key, so that the help is what is true.
import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { go, path } from "../state/route";

export const helpShown = signal(false);

const PLACES: Record<string, [string, string]> = {
  o: ["/", "overview"],
  q: ["/queue", "queue"],
  j: ["/jobs", "jobs"],
  g: ["/gpus", "GPUs"],
  n: ["/nodes", "nodes"],
  l: ["/clusters", "clusters"],
  w: ["/what-if", "what if"],
  s: ["/sla", "SLA"],
  c: ["/cost", "cost"],
  h: ["/history", "history"],
  i: ["/insights", "insights"],
  a: ["/alerts", "alerts"],
  r: ["/reports", "reports"],
  p: ["/api", "API"],
};
const TABS: Record<string, [string, string]> = {
  e: ["why", "why it waits"],
  l: ["logs", "logs"],
  t: ["trace", "trace"],
  v: ["events", "events"],
  p: ["placement", "placement"],
};

let began = 0;

function typing(event: KeyboardEvent): boolean {
  const target = event.target as HTMLElement;
  return target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName);
}

/** Rows of the first list on the page, for j and k. */
function move(by: number): void {
  const rows = [...document.querySelectorAll<HTMLElement>("[data-row]")];
  if (rows.length === 0) return;
  const at = rows.indexOf(document.activeElement as HTMLElement);
  const next = rows[at < 0 ? 0 : Math.min(rows.length - 1, Math.max(0, at + by))];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
}

export function listenForKeys(): void {
  window.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") {
      helpShown.value = false;
      if (typing(event)) (event.target as HTMLElement).blur();
      return;
    }
    if (typing(event)) return;
    if (Date.now() - began < 1500 && PLACES[event.key]) {
      began = 0;
      event.preventDefault();
      go(PLACES[event.key]?.[0] ?? "/");
      return;
    }
    const tab = path.value[0] === "jobs" && path.value[1] ? TABS[event.key] : undefined;
    if (event.key === "g") began = Date.now();
    else if (event.key === "?") helpShown.value = !helpShown.value;
    else if (event.key === "/") {
      event.preventDefault();
      document.querySelector<HTMLInputElement>("#search")?.focus();
    } else if (event.key === "j") move(1);
    else if (event.key === "k") move(-1);
    else if (tab) go(`/jobs/${path.value[1]}/${tab[0]}`);
  });
}

export function KeyHelp() {
  const dialog = useRef<HTMLDialogElement>(null);
  const shown = helpShown.value;
  useEffect(() => {
    if (shown && !dialog.current?.open) dialog.current?.showModal();
    if (!shown && dialog.current?.open) dialog.current.close();
  }, [shown]);
  const keys: [string, string][] = [
    ["/", "search a job by name or id"],
    ["j k", "next and previous row"],
    ["Enter", "open the row"],
    ...Object.entries(PLACES).map(([key, [, name]]): [string, string] => [`g ${key}`, `go to ${name}`]),
    ...Object.entries(TABS).map(([key, [, name]]): [string, string] => [key, `on a job: ${name}`]),
    ["?", "this help"],
  ];
  return (
    <dialog
      ref={dialog}
      aria-labelledby="keys-title"
      onClose={() => {
        helpShown.value = false;
      }}
    >
      <h2 id="keys-title">Keys</h2>
      <dl class="keys">
        {keys.map(([key, what]) => (
          <div key={key}>
            <dt>
              {key.split(" ").map((part) => (
                <kbd key={part}>{part}</kbd>
              ))}
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
      <button
        type="button"
        onClick={() => {
          helpShown.value = false;
        }}
      >
        Close
      </button>
    </dialog>
  );
}
