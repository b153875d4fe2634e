import { expect, it } from "vitest";
import type { GpuMap } from "../src/api/types";
import { grouped, reading, stateOf, sums } from "../src/pages/gpus";
import { hue, isJoined, layout } from "../src/parts/heatmap";

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
  watts: [55, 312, -1, -1],
  celsius: [41, -1, -1, -1],
  unasked: [],
};

it("counts what is held, and of that what is known to be idle", () => {
  expect(sums(map, [0, 1])).toEqual({ all: 4, held: 3, idle: 1, known: 2, watts: 367, away: 2 });
});
it("says what a driver tells, and no more", () => {
  expect([0, 1, 2].map((gpu) => reading(map, gpu))).toEqual([" (2 %, 55 W, 41 °C)", " (80 %, 312 W)", ""]);
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
  const { places } = layout(map, [0, 1], 200, 16);
  expect(new Set(places.map((place) => `${place.x} ${place.y}`)).size).toBe(4);
  expect(Math.max(...places.map((place) => place.x))).toBeLessThan(200);
});
it("joins the GPUs of one job on one line of a node, and no others", () => {
  const held = { ...map, job: [0, 0, 0, -1], jobs: [{ id: "j", name: "", user: "", tenant: "" }] } as unknown as GpuMap;
  const { places } = layout(held, [0, 1], 200, 16);
  expect(places.map((_, at) => isJoined(held, places, at))).toEqual([true, false, false, false]);
});
it("gives a job the same colour every time", () => {
  expect(hue("abc")).toBe(hue("abc"));
  expect(hue("abc")).not.toBe(hue("abd"));
});
