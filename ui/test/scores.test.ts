import { expect, test } from "vitest";
import { laid, reachOf, zero } from "../src/parts/scores";

test("what speaks against a node is drawn to the left of the line, to the same scale for all", () => {
  const good = { fit: 30, affinity: 0 };
  const bad = { fit: 10, affinity: -50, cost: -20 };
  const reach = reachOf([good, bad]);
  expect(reach).toEqual({ against: 70, for: 30 });
  expect(zero(reach)).toBeCloseTo(70);
  const names = ["fit", "affinity", "cost"];
  expect(laid(names, good, reach)).toEqual([{ name: "fit", at: 0, x: 70, width: 30 }]);
  const bars = laid(names, bad, reach);
  expect(bars.map((bar) => [bar.name, Math.round(bar.x), Math.round(bar.width)])).toEqual([
    ["fit", 70, 10],
    ["affinity", 20, 50],
    ["cost", 0, 20],
  ]);
});

test("scores of nothing have no bars, and the line at their left", () => {
  const reach = reachOf([{}]);
  expect(laid(["fit"], {}, reach)).toEqual([]);
  expect(zero(reach)).toBe(0);
});
