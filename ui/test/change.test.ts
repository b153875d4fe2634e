import { expect, it } from "vitest";
import { updateOf } from "../src/parts/change";

it("puts fields where the API has them", () => {
  expect(updateOf({ "resources.gpus": 8, "resources.gpuModel": null, priority: "HIGH" })).toEqual({
    priority: "HIGH",
    resources: { gpus: 8, gpuModel: null },
  });
});
it("says when a submitted job cannot be changed so", () => {
  expect(updateOf({ "gang.ranks": 2 })).toBeUndefined();
  expect(updateOf({ "resources.devices.tpu": 1 })).toBeUndefined();
});
