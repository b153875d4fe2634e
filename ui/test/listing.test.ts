import { afterEach, expect, it, vi } from "vitest";
import { type JobRow, Listing, merged } from "../src/state/listing";

afterEach(() => vi.unstubAllGlobals());

const rows = (...ids: string[]) => ids.map((id) => ({ state: { id } }) as JobRow);
const ids = (found: JobRow[]) => found.map((row) => row.state.id).join("");

it("puts new jobs in front and keeps what was read further down", () => {
  expect(ids(merged(rows("c", "b", "a"), rows("d", "c"), false))).toBe("dcba");
});
it("takes out jobs that no longer belong to the list", () => {
  expect(ids(merged(rows("d", "c", "b", "a"), rows("d", "b"), false))).toBe("dba");
});
it("begins anew where nothing overlaps", () => {
  expect(ids(merged(rows("b", "a"), rows("z", "y"), false))).toBe("zy");
});
it("has nothing else when the page is all there is", () => {
  expect(ids(merged(rows("c", "b", "a"), rows("a"), true))).toBe("a");
});
it("reads on when the end came in sight while the first page was asked for again", async () => {
  const asked: string[] = [];
  const answers: (() => void)[] = [];
  vi.stubGlobal("document", { hidden: false });
  vi.stubGlobal("window", { setTimeout: () => 0, clearTimeout: () => {} });
  vi.stubGlobal("fetch", (path: string) => {
    asked.push(path);
    const id = path.includes("cursor=") ? "b" : "a";
    const page = { jobs: [{ id }], cursor: "next", waiting: {}, arrayCounts: {}, used: {}, atRisk: [] };
    return new Promise((answer) => answers.push(() => answer({ ok: true, status: 200, json: async () => page })));
  });
  const listing = new Listing("");
  const answer = async () => {
    answers.shift()?.();
    await new Promise((settled) => globalThis.setTimeout(settled, 0));
  };
  void listing.head();
  await answer();
  void listing.head();
  void listing.more();
  await answer();
  expect(asked.map((path) => path.includes("cursor="))).toEqual([false, false, true]);
  await answer();
  expect(ids(listing.now.value.rows)).toBe("ab");
});
