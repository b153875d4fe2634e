import { expect, it } from "vitest";
import { folded } from "../src/pages/job_why";

it("folds filters that take nothing away", () => {
  const steps = [
    { filter: "nodes", nodes: 3 },
    { filter: "taints", nodes: 3 },
    { filter: "gpus", nodes: 1 },
    { filter: "memory", nodes: 0 },
  ];
  expect(folded(steps)).toEqual([
    { filters: ["nodes", "taints"], nodes: 3 },
    { filters: ["gpus"], nodes: 1 },
    { filters: ["memory"], nodes: 0 },
  ]);
});
