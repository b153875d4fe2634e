import { expect, it } from "vitest";
import { type JobRow, merged } from "../src/state/listing";

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
