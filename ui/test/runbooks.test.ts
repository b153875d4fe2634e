import { describe, expect, it } from "vitest";
import { jobsIn, placeOf, runbookKinds, runbookOf } from "../src/parts/runbooks";

describe("an alert", () => {
  it("leads to what it is about", () => {
    expect(placeOf("nodes/a b")).toBe("/nodes/a%20b");
    expect(placeOf("jobs/x1")).toBe("/jobs/x1");
    expect(placeOf("tenants/t")).toBe("");
  });

  it("leads to the jobs that it names", () => {
    expect(jobsIn("job z2f5y5m8z0tdzd1b of acme: job z2f5y5m8z0tdzd1b <b>")).toEqual(["z2f5y5m8z0tdzd1b"]);
    expect(jobsIn("a job of another tenant")).toEqual([]);
  });

  it("has a runbook, also of a kind that is not known", () => {
    for (const kind of [...runbookKinds(), "new-kind"]) {
      const book = runbookOf({ kind });
      expect(book.meaning && book.look.length && book.act.length).toBeTruthy();
    }
  });
});
