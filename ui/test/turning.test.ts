import { expect, it } from "vitest";
import { beyond, turns } from "../src/parts/turning";

const node = (name: string, parts: Record<string, number>) => ({
  node: name,
  parts,
  score: Object.values(parts).reduce((sum, part) => sum + part, 0),
  ranks: 0,
});
const answer = {
  weights: [
    { name: "pack", weight: 2 },
    { name: "cool", weight: 1 },
    { name: "off", weight: 0 },
  ],
  nodes: [node("a", { pack: 2, cool: 0.2 }), node("b", { pack: 1, cool: 0.8 })],
} as unknown as Parameters<typeof turns>[0];

it("finds where the runner-up draws level, by each weight alone", () => {
  const found = turns(answer);
  expect(found.runnerUp).toBe("b");
  // a leads by 0.4: pack gives it 1 more at a weight of 2, cool gives b 0.6 more at a weight of 1.
  expect(found.turns.map((turn) => [turn.scorer, Number(turn.turnsAt.toFixed(3))])).toEqual([
    ["pack", 1.2],
    ["cool", 1.667],
  ]);
});
it("goes just beyond it, in the direction that turns", () => {
  expect(turns(answer).turns.map(beyond)).toEqual([1.1, 1.7]);
});
it("says nothing of a decision without a choice", () => {
  expect(turns({ ...answer, nodes: answer.nodes.slice(0, 1) }).turns).toEqual([]);
});
