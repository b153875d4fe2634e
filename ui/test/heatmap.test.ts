import { expect, it } from "vitest";
import type { GpuMap } from "../src/api/types";
import { grouped, stateOf, sums } from "../src/pages/gpus";
import { layout } from "../src/parts/heatmap";

const node = (name: string, first: number, gpus: number, more = {}) => ({
  name,
  pool: "p",
  rack: "",
  model: "A100",
  ready: true,
  cordoned: false,
  drained: false,
  mock: false,
  first,
  gpus,
  ...more,
});
const map: GpuMap = {
  at: 0,
  nodes: [node("a", 0, 2), node("b", 2, 2, { ready: false, pool: "q" })],
  jobs: [],
  index: [0, 1, 0, 1],
  memoryMib: [1, 1, 1, 1],
  heldMilli: [1000, 500, 0, 1000],
  job: [-1, -1, -1, -1],
  busy: [2, 80, -1, -1],
  unasked: [],
};

it("counts what is held, and of that what is known to be idle", () => {
  expect(sums(map, [0, 1])).toEqual({ all: 4, held: 3, idle: 1, known: 2, away: 2 });
});
it("says the state of each in words", () => {
  expect([0, 1, 2, 3].map((gpu) => stateOf(map, gpu))).toEqual([
    "held, idle",
    "50 % held, busy",
    "free, node silent",
    "held, node silent",
  ]);
});
it("groups nodes", () => {
  expect([...grouped(map, "pool")]).toEqual([
    ["p", [0]],
    ["q", [1]],
  ]);
});
it("gives every GPU a place of its own", () => {
  const { places } = layout(map, [0, 1], 200);
  expect(new Set(places.map((place) => `${place.x} ${place.y}`)).size).toBe(4);
  expect(Math.max(...places.map((place) => place.x))).toBeLessThan(200);
});
