// Numbers over time, made ready to be drawn: fewer points, lines with gaps, dots, a scale with a round end.

export type Points = readonly (number | null)[];

/** At most so many points, each the mean of its part; null where nothing was measured. */
export function means(points: Points, most: number): Points {
  if (points.length <= most) return points;
  return Array.from({ length: most }, (_, at) => {
    const part = points.slice(
      Math.floor((at * points.length) / most),
      Math.max(Math.floor((at * points.length) / most) + 1, Math.floor(((at + 1) * points.length) / most)),
    );
    const known = part.filter((point): point is number => point !== null);
    return known.length === 0 ? null : known.reduce((sum, point) => sum + point, 0) / known.length;
  });
}

/** The next of 1, 2, 5 times a power of ten: where the scale ends. */
export function roundEnd(most: number): number {
  if (!(most > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(most));
  return [1, 2, 5, 10].map((step) => step * power).find((end) => end >= most * 0.999_999) ?? most;
}

const TIMES = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21_600, 43_200, 86_400];

/** The same for seconds, which people count by sixty. */
export function timeEnd(most: number): number {
  if (most < 1) return roundEnd(most);
  return TIMES.find((end) => end >= most) ?? 86_400 * Math.ceil(most / 86_400);
}

/** An SVG path over a box of a width and height. Where nothing was measured there is a gap. */
export function line(points: Points, end: number, width: number, height: number): string {
  const step = points.length > 1 ? width / (points.length - 1) : 0;
  let drawn = "";
  points.forEach((point, at) => {
    if (point === null) return;
    const x = (at * step).toFixed(1);
    const y = (height - (height * Math.min(Math.max(point, 0), end)) / end).toFixed(1);
    const goesOn = at > 0 && points[at - 1] !== null;
    drawn += goesOn ? `L${x} ${y}` : `M${x} ${y}`;
  });
  return drawn;
}

/** Points with nothing on either side: a line does not show them. */
export function lone(points: Points): Points {
  const there = (at: number) => points[at] !== null && points[at] !== undefined;
  return points.map((point, at) => (there(at - 1) || there(at + 1) ? null : point));
}

/** The same as `line`, as dots. */
export function dots(points: Points, end: number, width: number, height: number): string {
  return line(points, end, width, height).replaceAll(/M[^ML]+/g, (each) => `${each}h0`);
}

export function latest(points: Points): number | null {
  for (let at = points.length - 1; at >= 0; at -= 1) {
    const point = points[at];
    if (point !== null && point !== undefined) return point;
  }
  return null;
}

/** Point by point, of several lines; null where none of them was measured. */
export function summed(lines: readonly Points[]): Points {
  const length = Math.max(0, ...lines.map((points) => points.length));
  return Array.from({ length }, (_, at) => {
    const known = lines.map((points) => points[at]).filter((point): point is number => typeof point === "number");
    return known.length === 0 ? null : known.reduce((sum, point) => sum + point, 0);
  });
}
