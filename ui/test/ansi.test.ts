import { describe, expect, it } from "vitest";
import { parse } from "../src/parts/ansi";

describe("log text", () => {
  it("keeps markup as text", () => {
    expect(parse("<script>alert(1)</script>")).toEqual([{ text: "<script>alert(1)</script>", style: "" }]);
  });
  it("shows colours and ends them", () => {
    expect(parse("\u001b[1;31mbad\u001b[0m good")).toEqual([
      { text: "bad", style: "fg-1 bold" },
      { text: " good", style: "" },
    ]);
  });
  it.each([
    ["a title of the window", "\u001b]0;owned\u0007after"],
    ["a link of the terminal", "\u001b]8;;http://evil.example\u001b\\after"],
    ["a cleared screen", "\u001b[2J\u001b[Hafter"],
    ["a device string that does not end", "after\u001bPq#0;2;0"],
    ["text turned around", "\u202eafter"],
    ["a bell and a backspace", "af\u0007\u0008ter"],
  ])("drops %s", (_, text) => {
    expect(
      parse(text)
        .map((span) => span.text)
        .join(""),
    ).toBe("after");
  });
  it("begins a line anew at a carriage return, as progress bars do", () => {
    expect(parse("10 %\r20 %\r")).toEqual([{ text: "20 %", style: "" }]);
  });
  it("skips colours it does not know without losing text", () => {
    expect(parse("\u001b[38;2;1;2;3mx\u001b[48;5;9my")).toEqual([
      { text: "x", style: "" },
      { text: "y", style: "" },
    ]);
  });
});
