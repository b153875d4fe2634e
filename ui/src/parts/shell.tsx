// What is around every page: where one can go, who looks, and whether what is shown is live.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { acting, get } from "../api/client";
import { connected } from "../state/live";
import { theme, zone } from "../state/prefs";
import { go, href, path } from "../state/route";
import { logOut, may, session } from "../state/session";
import { helpShown, KeyHelp } from "./keys";

const PLACES: readonly { at: string; to: string; label: string; needs?: string }[] = [
  { at: "", to: "/", label: "Overview" },
  { at: "queue", to: "/queue", label: "Queue" },
  { at: "jobs", to: "/jobs", label: "Jobs" },
  { at: "gpus", to: "/gpus", label: "GPUs" },
  { at: "nodes", to: "/nodes", label: "Nodes" },
  { at: "clusters", to: "/clusters", label: "Clusters" },
  { at: "what-if", to: "/what-if", label: "What if" },
  { at: "sla", to: "/sla", label: "SLA" },
  { at: "cost", to: "/cost", label: "Cost" },
  { at: "history", to: "/history", label: "History", needs: "metrics:read" },
  { at: "health", to: "/health", label: "Health", needs: "metrics:read" },
  { at: "insights", to: "/insights", label: "Insights", needs: "metrics:read" },
  { at: "alerts", to: "/alerts", label: "Alerts", needs: "alerts:admin" },
  { at: "reports", to: "/reports", label: "Reports" },
  { at: "audit", to: "/audit", label: "Audit", needs: "audit:read" },
  { at: "api", to: "/api", label: "API" },
];

export function Shell({ title, children }: { title: string; children: ComponentChildren }) {
  const here = path.value[0] ?? "";
  useEffect(() => {
    document.title = title ? `${title} · Ares` : "Ares";
  }, [title]);
  return (
    <div class="shell">
      <a class="skip" href="#main" onClick={() => document.getElementById("main")?.focus()}>
        Skip to content
      </a>
      <header class="top">
        <a class="brand" href={href("/")}>
          <svg viewBox="0 0 32 32" aria-hidden="true">
            <path d="M16 3l3.2 9.8L29 16l-9.8 3.2L16 29l-3.2-9.8L3 16l9.8-3.2z" />
          </svg>
          Ares
        </a>
        <div class="tools">
          <Search />
          <Switches />
        </div>
      </header>
      <nav class="places" aria-label="Pages">
        {PLACES.filter((place) => !place.needs || may(place.needs)).map((place) => (
          <a key={place.at} href={href(place.to)} aria-current={here === place.at ? "page" : undefined}>
            {place.label}
          </a>
        ))}
      </nav>
      <main id="main" tabIndex={0}>
        {acting.tenant ? (
          <p class="stale">
            You look into the tenant <b>{acting.tenant}</b>. <a href="/ui/">Back to your own</a>
          </p>
        ) : null}
        {children}
      </main>
      <KeyHelp />
    </div>
  );
}

/** By id, by the beginning of one, or by name. */
function Search() {
  const [text, setText] = useState("");
  const find = async (event: Event) => {
    event.preventDefault();
    const wanted = text.trim();
    if (!wanted) return;
    let ids: string[] = [];
    if (/^[0-9a-z_]{1,32}$/.test(wanted)) {
      try {
        ids = (await get<{ ids: string[] }>(`/v1/jobs/resolve?prefix=${wanted}`)).ids;
      } catch {
        // Then it is a name.
      }
    }
    setText("");
    (document.activeElement as HTMLElement | null)?.blur();
    if (ids.length === 1) go(`/jobs/${ids[0]}`);
    else go(`/jobs?name=${encodeURIComponent(wanted)}`);
  };
  return (
    <form role="search" onSubmit={find}>
      <input
        id="search"
        type="search"
        placeholder="Job name or id  /"
        aria-label="Search a job by name or id"
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
      />
    </form>
  );
}

function Switches() {
  const now = session.value;
  const themes = { system: "dark", dark: "light", light: "system" } as const;
  const icons = { system: "◐", dark: "☾", light: "☀" } as const;
  return (
    <div class="switches">
      <span
        class={connected.value ? "live on" : "live"}
        title={connected.value ? "Changes are shown as they happen" : "Asked every few seconds"}
      >
        <span aria-hidden="true">●</span> {connected.value ? "live" : "polling"}
      </span>
      <button
        type="button"
        class="quiet"
        title="Times in UTC or in local time"
        onClick={() => {
          zone.value = zone.value === "utc" ? "local" : "utc";
        }}
      >
        {zone.value === "utc" ? "UTC" : "local"}
      </button>
      <button
        type="button"
        class="quiet"
        aria-label={`Colours: ${theme.value}`}
        title={`Colours: ${theme.value}`}
        onClick={() => {
          theme.value = themes[theme.value];
        }}
      >
        {icons[theme.value]}
      </button>
      <button
        type="button"
        class="quiet"
        aria-label="Keys"
        title="Keys"
        onClick={() => {
          helpShown.value = true;
        }}
      >
        ?
      </button>
      {now.state === "in" ? (
        <details class="me">
          <summary title={`${now.who.role} of ${now.who.tenant}`}>
            {now.who.user || now.who.name || now.who.tokenId}
          </summary>
          <div class="menu">
            {acting.tenant ? (
              <p>
                Looks into <b>{acting.tenant}</b>. <a href="/ui/">Back to {now.who.tenant}</a>
              </p>
            ) : null}
            <p>
              {now.who.role} of <b>{now.who.tenant}</b>
            </p>
            <button type="button" onClick={() => void logOut()}>
              Log out
            </button>
          </div>
        </details>
      ) : null}
    </div>
  );
}
