// A list of jobs that grows as it is read and follows what happens: pages by cursor, the newest asked for again.
import { signal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { get, Problem } from "../api/client";
import type { JobPage, JobState, Waiting } from "../api/types";
import { type Changed, connected, onChange } from "./live";
import { ended } from "./session";

export interface JobRow {
  state: JobState;
  waiting: Waiting | undefined;
  counts: Record<string, number> | undefined;
  costs: number;
  atRisk: boolean;
}

export interface Listed {
  rows: JobRow[];
  complete: boolean;
  loading: boolean;
  problem: Problem | undefined;
  at: number;
}

const PAGE = 200;
// Asked for again at most four times a second, and at a server that is slow less often: most of the time it has rest.
const LEAST_MS = 250;
const MOST_MS = 2000;
const REST = 4;
const POLL_MS = 5000;

/** Jobs as one list: new ones in front, those that no longer belong to it taken out, order kept. */
export function merged(before: readonly JobRow[], page: readonly JobRow[], complete: boolean): JobRow[] {
  if (complete) return [...page];
  const fresh = new Set(page.map((row) => row.state.id));
  const last = page[page.length - 1]?.state.id;
  const end = before.findIndex((row) => row.state.id === last);
  // Without an overlap what was there before begins somewhere behind: it is fetched again when it is scrolled to.
  if (end < 0) return [...page];
  return [...page, ...before.slice(end + 1).filter((row) => !fresh.has(row.state.id))];
}

export function rowsOf(page: JobPage): JobRow[] {
  const risks = new Set(page.atRisk);
  return page.jobs.map((state) => ({
    state,
    waiting: page.waiting[state.id],
    counts: page.arrayCounts[state.id],
    costs: page.used[state.id]?.cost ?? 0,
    atRisk: risks.has(state.id),
  }));
}

export class Listing {
  readonly now = signal<Listed>({ rows: [], complete: false, loading: true, problem: undefined, at: 0 });
  private cursor = "";
  private asking = false;
  private missed = false;
  private wanted = false;
  private last = 0;
  private again = LEAST_MS;
  private timer = 0;
  private unhear = () => {};

  constructor(private readonly filter: string) {}

  start(): void {
    this.unhear = onChange((changed: Changed) => {
      if (changed.size > 0) this.plan(Math.max(0, this.last + this.again - Date.now()));
    });
    void this.head();
  }

  stop(): void {
    window.clearTimeout(this.timer);
    this.unhear();
  }

  private plan(delay: number): void {
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(() => void this.head(), delay);
  }

  /** The first page again. */
  head = async (): Promise<void> => {
    if (this.asking || document.hidden) {
      this.missed = true;
      this.plan(this.again);
      return;
    }
    await this.ask("", (page) => {
      const had = this.now.value.rows;
      const rows = merged(had, rowsOf(page), !page.cursor);
      if (rows.length <= page.jobs.length) this.cursor = page.cursor;
      return { rows, complete: !this.cursor };
    });
    this.plan(this.missed ? this.again : connected.value ? 3 * POLL_MS : POLL_MS);
    this.missed = false;
  };

  more = async (): Promise<void> => {
    if (!this.cursor || this.now.value.rows.length === 0) return;
    if (this.asking) {
      // The end stays in sight and nothing scrolls: it would not be asked for again.
      this.wanted = true;
      return;
    }
    await this.ask(this.cursor, (page) => {
      const there = new Set(this.now.value.rows.map((row) => row.state.id));
      this.cursor = page.cursor;
      const rows = [...this.now.value.rows, ...rowsOf(page).filter((row) => !there.has(row.state.id))];
      return { rows, complete: !page.cursor };
    });
  };

  private async ask(cursor: string, take: (page: JobPage) => { rows: JobRow[]; complete: boolean }): Promise<void> {
    this.asking = true;
    if (!cursor) this.last = Date.now();
    try {
      const more = cursor ? `&cursor=${encodeURIComponent(cursor)}` : "";
      const began = Date.now();
      const page = await get<JobPage>(`/v1/jobs?limit=${PAGE}&arrays=whole${this.filter}${more}`);
      this.again = Math.min(MOST_MS, Math.max(LEAST_MS, REST * (Date.now() - began)));
      this.now.value = { ...take(page), loading: false, problem: undefined, at: Date.now() };
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      if (error.status === 401) ended();
      this.now.value = { ...this.now.value, loading: false, problem: error };
    } finally {
      this.asking = false;
    }
    if (this.wanted) {
      this.wanted = false;
      void this.more();
    }
  }
}

export function useListing(filter: string): Listed & { more: () => void; again: () => void } {
  const listing = useMemo(() => new Listing(filter), [filter]);
  useEffect(() => {
    listing.start();
    return () => listing.stop();
  }, [listing]);
  return { ...listing.now.value, more: listing.more, again: () => void listing.head() };
}
