// What a page shows: asked for, kept, asked for again. An error keeps the last answer, with its age.
import { type Signal, signal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { acting, get, Problem } from "../api/client";
import { type Changed, connected, onChange } from "./live";
import { ended } from "./session";

export interface Asked<T> {
  data: T | undefined;
  problem: Problem | undefined;
  /** When the data was true, in milliseconds. */
  at: number;
}

interface Kept {
  now: Signal<Asked<unknown>>;
  users: number;
  stop: () => void;
  again: () => void;
}

const NOTHING: Asked<never> = { data: undefined, problem: undefined, at: 0 };
const KEPT_MAX = 100;
const LEAST_MS = 1000;
const kept = new Map<string, Kept>();

export interface AskOptions {
  /** How often, in milliseconds; with a live connection less often. */
  every?: number;
  /** Which changes matter: a job, or "any". */
  on?: string;
}

/** The answer to a GET, kept up to date while the page is shown. A path of null asks for nothing. */
export function useAsk<T>(path: string | null, options: AskOptions = {}): Asked<T> & { again: () => void } {
  const { every = 5000, on = "" } = options;
  const key = path === null ? null : `${acting.tenant} ${path}`;
  const found = useMemo(() => (key === null ? null : keep(key)), [key]);
  useEffect(() => {
    if (path === null || found === null) return;
    found.users += 1;
    if (found.users === 1) begin(path, found, every, on);
    return () => {
      found.users -= 1;
      if (found.users === 0) found.stop();
    };
  }, [path, found, every, on]);
  const now = (found?.now.value ?? NOTHING) as Asked<T>;
  return { ...now, again: () => found?.again() };
}

function keep(path: string): Kept {
  const there = kept.get(path);
  if (there) return there;
  for (const [old, entry] of kept) {
    if (kept.size < KEPT_MAX) break;
    if (entry.users === 0) kept.delete(old);
  }
  const made: Kept = { now: signal<Asked<unknown>>(NOTHING), users: 0, stop: () => {}, again: () => {} };
  kept.set(path, made);
  return made;
}

function begin(path: string, entry: Kept, every: number, on: string): void {
  let aborting = new AbortController();
  let asking = false;
  let missed = false;
  let last = 0;
  let timer = 0;
  const plan = (delay: number) => {
    window.clearTimeout(timer);
    timer = window.setTimeout(ask, delay);
  };
  const ask = async () => {
    if (document.hidden) {
      // A tab in the background asks when it is looked at again.
      missed = true;
      return;
    }
    if (asking) {
      missed = true;
      return;
    }
    asking = true;
    last = Date.now();
    try {
      const data = await get<unknown>(path, aborting.signal);
      entry.now.value = { data, problem: undefined, at: Date.now() };
    } catch (error) {
      if (!(error instanceof Problem)) {
        asking = false;
        return;
      }
      if (error.status === 401) ended();
      entry.now.value = { ...entry.now.value, problem: error };
    }
    asking = false;
    const soon = missed;
    missed = false;
    plan(soon ? LEAST_MS : every * (on && connected.value && !acting.tenant ? 3 : 1));
  };
  const heard = (changed: Changed) => {
    if (!on || !(on === "any" || changed.has(on) || changed.has("*"))) return;
    if (asking) missed = true;
    else plan(Math.max(0, last + LEAST_MS - Date.now()));
  };
  const shown = () => {
    if (!document.hidden && missed) void ask();
  };
  const unhear = onChange(heard);
  document.addEventListener("visibilitychange", shown);
  entry.again = () => void ask();
  entry.stop = () => {
    window.clearTimeout(timer);
    aborting.abort();
    aborting = new AbortController();
    unhear();
    document.removeEventListener("visibilitychange", shown);
    entry.again = () => {};
  };
  void ask();
}

/** After a change of ours: everything that is shown is asked for again. */
export function refresh(): void {
  for (const entry of kept.values()) if (entry.users > 0) entry.again();
}
