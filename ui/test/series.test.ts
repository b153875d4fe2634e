import { describe, expect, it } from "vitest";
import { dots, latest, line, lone, means, roundEnd, summed, timeEnd } from "../src/parts/series";

describe("numbers over time", () => {
  it("are thinned out by means, and gaps stay gaps", () => {
    expect(means([1, 3, null, null, 5, null], 3)).toEqual([2, null, 5]);
    expect(means([1, 2], 3)).toEqual([1, 2]);
  });

  it("are drawn with a gap where nothing was measured", () => {
    expect(line([0, 10, null, 5], 10, 90, 100)).toBe("M0.0 100.0L30.0 0.0M90.0 50.0");
    expect(line([null, null], 1, 10, 10)).toBe("");
  });

  it("show a point that stands alone as a dot", () => {
    expect(lone([1, 2, null, 5, null])).toEqual([null, null, null, 5, null]);
    expect(dots([null, 5], 10, 90, 100)).toBe("M90.0 50.0h0");
  });

  it("stay within the box whatever they are", () => {
    expect(line([-5, 1e9], 10, 10, 10)).toBe("M0.0 10.0L10.0 0.0");
  });

  it("have a scale that ends round, also when all is nothing", () => {
    expect([0, 0.7, 1, 3, 7, 20, 21].map(roundEnd)).toEqual([1, 1, 1, 5, 10, 20, 50]);
    expect([0.3, 7, 61, 4000, 100_000].map(timeEnd)).toEqual([0.5, 10, 120, 7200, 172_800]);
  });

  it("are summed by moment", () => {
    expect(
      summed([
        [1, null, null],
        [2, 5, null],
      ]),
    ).toEqual([3, 5, null]);
    expect(latest([1, 2, null])).toBe(2);
    expect(latest([null])).toBeNull();
  });
});
