// Small parts that every page is made of.
import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Problem } from "../api/client";
import type { Phase } from "../api/types";
import type { Asked } from "../state/ask";
import { href } from "../state/route";
import { duration, exactly, when } from "./format";

/** The time, for ages that grow while nothing else changes. */
export const now = signal(Date.now() / 1000);
window.setInterval(() => {
  if (!document.hidden) now.value = Date.now() / 1000;
}, 1000);

const GLYPHS: Record<Phase, string> = {
  WAITING: "⋯",
  PENDING: "◔",
  STAGING: "↧",
  RUNNING: "▶",
  RETRYING: "↻",
  PREEMPTED: "⇤",
  SUCCEEDED: "✓",
  FAILED: "✕",
  CANCELLED: "⊘",
  UNKNOWN: "?",
  SKIPPED: "↷",
};

export function PhaseBadge({ phase }: { phase: Phase }) {
  return (
    <span class={`phase phase-${phase}`}>
      <span aria-hidden="true">{GLYPHS[phase] ?? "•"}</span> {phase.toLowerCase()}
    </span>
  );
}

export function Time({ at }: { at: number | null | undefined }) {
  if (!at) return <span class="dim">–</span>;
  return (
    <time dateTime={new Date(at * 1000).toISOString()} title={exactly(at)}>
      {when(at)}
    </time>
  );
}

export function Age({ at }: { at: number }) {
  return <span title={exactly(at)}>{duration(now.value - at)}</span>;
}

/** Between when and when. Where no end can be said, the earliest moment is no likely start and is not told as one. */
export function LikelyStart({ eta }: { eta: { earliest: number; latest: number | null; computedAt: number } }) {
  if (eta.latest === null)
    return eta.earliest - eta.computedAt < 2 ? (
      <>When it starts cannot be said</>
    ) : (
      <>
        Starts not before{" "}
        <b>
          <Time at={eta.earliest} />
        </b>
        ; by when cannot be said
      </>
    );
  return (
    <>
      Likely starts between{" "}
      <b>
        <Time at={eta.earliest} />
      </b>{" "}
      and{" "}
      <b>
        <Time at={eta.latest} />
      </b>
    </>
  );
}

export function JobLink({ id, name, tab = "" }: { id: string; name?: string; tab?: string }) {
  return (
    <a href={href(`/jobs/${encodeURIComponent(id)}${tab ? `/${tab}` : ""}`)} class={name ? "" : "mono"}>
      {name || id}
    </a>
  );
}

export function Panel(props: { title: string; more?: ComponentChildren; children: ComponentChildren; class?: string }) {
  const id = `panel-${props.title.toLowerCase().replace(/\W+/g, "-")}`;
  return (
    <section class={`panel ${props.class ?? ""}`} aria-labelledby={id}>
      <header>
        <h2 id={id}>{props.title}</h2>
        {props.more}
      </header>
      {props.children}
    </section>
  );
}

/** A command to copy: what a page cannot do, a terminal can. */
export function Command({ text }: { text: string }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setDone(true);
      window.setTimeout(() => setDone(false), 1500);
    } catch {
      // Without the right to the clipboard, the text can still be marked by hand.
    }
  };
  return (
    <span class="command">
      <code>{text}</code>
      <button type="button" class="quiet" onClick={copy} aria-label={`Copy: ${text}`}>
        {done ? "copied" : "copy"}
      </button>
    </span>
  );
}

/** Nothing to show: why, and what to do. */
export function Empty(props: { title: string; children?: ComponentChildren; command?: string }) {
  return (
    <div class="empty">
      <p class="strong">{props.title}</p>
      {props.children ? <p>{props.children}</p> : null}
      {props.command ? <Command text={props.command} /> : null}
    </div>
  );
}

export function Trouble({ problem, again }: { problem: Problem; again?: () => void }) {
  return (
    <div class="trouble" role="alert">
      <p class="strong">{problem.title || problem.message}</p>
      {problem.detail && problem.detail !== problem.title ? <p>{problem.detail}</p> : null}
      {problem.fix ? <p class="dim">{problem.fix}</p> : null}
      {again ? (
        <button type="button" onClick={again}>
          Try again
        </button>
      ) : null}
    </div>
  );
}

/** Rows of grey that come after a moment only: what answers at once is drawn at once. */
export function Skeleton({ rows = 4 }: { rows?: number }) {
  const [late, setLate] = useState(false);
  useEffect(() => {
    const timer = window.setTimeout(() => setLate(true), 150);
    return () => window.clearTimeout(timer);
  }, []);
  return (
    <div class="skeleton" role="status" aria-label="Loading">
      {late ? Array.from({ length: rows }, (_, row) => <div key={row} class={`bone bone-${row % 4}`} />) : null}
    </div>
  );
}

/** The one way from an answer to what is shown: loading, failed, old, or good. */
export function Shown<T>(props: {
  of: Asked<T> & { again: () => void };
  rows?: number;
  children: (data: T) => ComponentChildren;
}) {
  const { data, problem, at, again } = props.of;
  if (data === undefined) return problem ? <Trouble problem={problem} again={again} /> : <Skeleton rows={props.rows} />;
  return (
    <>
      {problem ? (
        <p class="stale" role="status">
          <span aria-hidden="true">⚠</span> As of {duration(now.value - at / 1000)} ago:{" "}
          {problem.title || problem.message}.{" "}
          <button type="button" class="quiet" onClick={again}>
            Try again
          </button>
        </p>
      ) : null}
      {props.children(data)}
    </>
  );
}

/** A part of a whole, in words and as a bar. */
export function Meter(props: { label: string; part: number; all: number; text: string; tone?: string }) {
  const share = props.all > 0 ? Math.min(1, props.part / props.all) : 0;
  return (
    <div class="meter">
      <div class="meter-head">
        <span>{props.label}</span>
        <span class="num">{props.text}</span>
      </div>
      <svg class={`bar ${props.tone ?? ""}`} viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">
        <rect class="bar-all" width="100" height="6" rx="0" />
        <rect class="bar-part" width={share * 100} height="6" rx="0" />
      </svg>
    </div>
  );
}

export function Tabs(props: {
  label: string;
  tabs: readonly { name: string; label: string; to: string }[];
  shown: string;
}) {
  return (
    <nav class="tabs" aria-label={props.label}>
      {props.tabs.map((tab) => (
        <a key={tab.name} href={href(tab.to)} aria-current={tab.name === props.shown ? "page" : undefined}>
          {tab.label}
        </a>
      ))}
    </nav>
  );
}

export function Facts({ facts }: { facts: readonly (readonly [string, ComponentChildren])[] }) {
  return (
    <dl class="facts">
      {facts.map(([label, value]) => (
        <div key={label}>
          <dt>{label}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** A table of few rows. Wide ones scroll by themselves, not the page. */
export function Rows(props: {
  label: string;
  heads: readonly string[];
  numeric?: readonly number[];
  children: ComponentChildren;
}) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={props.label}>
      <table>
        <thead>
          <tr>
            {props.heads.map((head, at) => (
              <th key={head} scope="col" class={props.numeric?.includes(at) ? "num" : ""}>
                {head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{props.children}</tbody>
      </table>
    </div>
  );
}
