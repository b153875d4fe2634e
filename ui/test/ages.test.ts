import { expect, it } from "vitest";
import type { ClusterAge } from "../src/api/types";
import { silentSince } from "../src/parts/ages";

const age = (more: Partial<ClusterAge>): ClusterAge => ({
  cluster: "east",
  state: "ACTIVE",
  silent: true,
  heardS: 600,
  toldAt: 1_000,
  closedDay: "",
  incarnation: 1,
  ...more,
});

it("says since when a cluster is silent, by what was heard of it last", () => {
  expect(silentSince(age({}), 2_000)).toBe(1_400);
  expect(silentSince(age({ heardS: null }), 2_000)).toBe(1_000);
  expect(silentSince(age({ heardS: null, toldAt: null }), 2_000)).toBe(null);
  expect(silentSince(age({ silent: false }), 2_000)).toBe(null);
});
