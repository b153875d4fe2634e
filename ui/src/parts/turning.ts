// Which single weight would have turned a decision: the score is the sum of its parts, each part in proportion to its
// weight, so the point where the runner-up draws level can be computed.
import type { ReplayAnswer } from "../api/types";

export interface Turn {
  scorer: string;
  weight: number;
  /** From here on the runner-up wins. */
  turnsAt: number;
}

/** The nearest first; empty when there is one node only, or none of the weights could turn it. */
export function turns(answer: Pick<ReplayAnswer, "nodes" | "weights">): { runnerUp: string; turns: Turn[] } {
  const [best, second] = [...answer.nodes].sort((one, other) => other.score - one.score);
  if (!best || !second) return { runnerUp: "", turns: [] };
  const margin = best.score - second.score;
  const found: Turn[] = [];
  for (const { name, weight } of answer.weights) {
    const gain = (second.parts[name] ?? 0) - (best.parts[name] ?? 0);
    if (weight <= 0 || gain === 0) continue;
    const turnsAt = weight * (1 + margin / gain);
    if (turnsAt >= 0 && turnsAt <= 1_000_000) found.push({ scorer: name, weight, turnsAt });
  }
  const far = (turn: Turn) => Math.abs(turn.turnsAt - turn.weight) / turn.weight;
  return { runnerUp: second.node, turns: found.sort((one, other) => far(one) - far(other)) };
}

/** A weight just beyond the turning point, in few digits. */
export function beyond(turn: Turn): number {
  const up = turn.turnsAt >= turn.weight;
  const step = 10 ** (Math.floor(Math.log10(Math.max(turn.turnsAt, 0.01))) - 1);
  return up
    ? Number((Math.floor(turn.turnsAt / step + 1) * step).toPrecision(6))
    : Number(Math.max(0, (Math.ceil(turn.turnsAt / step) - 1) * step).toPrecision(6));
}
