// Scores as bars. Parts add up to the right of a line where they speak for a node, and to the left where against it.

/** How far the bars of all nodes go to either side, in the unit of the scores. */
export interface Reach {
  against: number;
  for: number;
}

export interface Bar {
  name: string;
  /** Its place among the names, which its colour goes by. */
  at: number;
  /** In percent of the whole width. */
  x: number;
  width: number;
}

type Parts = Record<string, number>;

const total = (parts: Parts, sign: 1 | -1) =>
  Object.values(parts).reduce((sum, part) => sum + Math.max(0, sign * part), 0);

/** The same for all nodes, so that their bars can be compared. */
export function reachOf(nodes: readonly Parts[]): Reach {
  const most = (sign: 1 | -1) => nodes.reduce((reach, parts) => Math.max(reach, total(parts, sign)), 0);
  return { against: most(-1), for: most(1) };
}

const scale = (reach: Reach) => 100 / Math.max(1e-9, reach.against + reach.for);

/** Where the line is, in percent of the width. */
export const zero = (reach: Reach) => Math.min(99.5, reach.against * scale(reach));

/** One bar for each part that is not nothing. */
export function laid(names: readonly string[], parts: Parts, reach: Reach): Bar[] {
  const unit = scale(reach);
  let left = reach.against * unit;
  let right = left;
  const found: Bar[] = [];
  names.forEach((name, at) => {
    const width = Math.abs(parts[name] ?? 0) * unit;
    if (width === 0) return;
    if ((parts[name] ?? 0) > 0) {
      found.push({ name, at, x: right, width });
      right += width;
    } else {
      left -= width;
      found.push({ name, at, x: left, width });
    }
  });
  return found;
}
