// Lines over time as SVG, and the same as a table. What a line is stands beside its sign, never in its colour alone.
import { useState } from "preact/hooks";
import { Rows } from "./basic";
import { exactly, when } from "./format";
import { dots, latest, line, lone, means, type Points, roundEnd } from "./series";

export interface ChartLine {
  label: string;
  points: Points;
}

const WIDTH = 600;
const HEIGHT = 110;
const DRAWN_MAX = 300;
const ROWS_MAX = 24;
const LINES_MAX = 6;

export interface ChartProps {
  title: string;
  lines: readonly ChartLine[];
  /** When the first point is of, and how far they are apart; seconds. */
  since: number;
  stepS: number;
  format: (value: number) => string;
  /** Where the scale ends, of the largest that is drawn. */
  endOf?: (most: number) => number;
}

export function Chart({ title, lines, since, stepS, format, endOf = roundEnd }: ChartProps) {
  const [at, setAt] = useState(-1);
  const shown = [...lines].sort((a, b) => peak(b.points) - peak(a.points)).slice(0, LINES_MAX);
  const drawn = shown.map((each) => ({ ...each, points: means(each.points, DRAWN_MAX) }));
  const length = Math.max(0, ...drawn.map((each) => each.points.length));
  const whole = Math.max(0, ...shown.map((each) => each.points.length));
  const top = endOf(Math.max(0, ...drawn.map((each) => peak(each.points))));
  const time = (point: number) => since + (stepS * whole * point) / Math.max(1, length);
  const nothing = drawn.every((each) => latest(each.points) === null);
  const follow = (event: PointerEvent) => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    setAt(Math.max(0, Math.min(length - 1, Math.round(((event.clientX - box.left) / box.width) * (length - 1)))));
  };
  return (
    <figure class="chart">
      <figcaption>
        <span class="chart-title">{title}</span>
        <span class="dim small">{at >= 0 && at < length ? exactly(time(at)) : ""}</span>
      </figcaption>
      {nothing ? (
        <p class="dim small chart-none">Nothing was measured in this time.</p>
      ) : (
        <>
          <div class="chart-box" onPointerMove={follow} onPointerLeave={() => setAt(-1)}>
            <span class="chart-top num" aria-hidden="true">
              {format(top)}
            </span>
            <svg viewBox={`0 -2 ${WIDTH} ${HEIGHT + 4}`} preserveAspectRatio="none" aria-hidden="true">
              <path class="chart-rule" d={`M0 0H${WIDTH}M0 ${HEIGHT / 2}H${WIDTH}M0 ${HEIGHT}H${WIDTH}`} />
              {drawn.map((each, number) => (
                <g key={each.label}>
                  <path class={`line line-${number}`} d={line(each.points, top, WIDTH, HEIGHT)} />
                  <path class={`line line-${number} dots`} d={dots(lone(each.points), top, WIDTH, HEIGHT)} />
                </g>
              ))}
              {at >= 0 && length > 1 ? (
                <path class="chart-at" d={`M${(WIDTH * at) / (length - 1)} 0V${HEIGHT}`} />
              ) : null}
            </svg>
          </div>
          <p class="chart-axis dim small" aria-hidden="true">
            <span>{when(since)}</span>
            <span>{when(since + stepS * whole)}</span>
          </p>
          <ul class="chart-lines">
            {drawn.map((each, number) => {
              const value = at >= 0 ? each.points[at] : latest(each.points);
              return (
                <li key={each.label}>
                  <svg class="chart-sign" viewBox="0 0 22 6" aria-hidden="true">
                    <path class={`line line-${number}`} d="M0 3H22" />
                  </svg>
                  {each.label} <b class="num">{value === null || value === undefined ? "–" : format(value)}</b>
                </li>
              );
            })}
            {lines.length > shown.length ? <li class="dim">and {lines.length - shown.length} more</li> : null}
          </ul>
          <AsTable title={title} lines={shown} since={since} stepS={stepS} format={format} />
        </>
      )}
    </figure>
  );
}

function peak(points: Points): number {
  return points.reduce<number>((most, point) => (point !== null && point > most ? point : most), 0);
}

function AsTable({ title, lines, since, stepS, format }: ChartProps) {
  const [open, setOpen] = useState(false);
  const whole = Math.max(0, ...lines.map((each) => each.points.length));
  const rows = Math.min(ROWS_MAX, whole);
  const columns = open ? lines.map((each) => means(each.points, rows)) : [];
  return (
    <details class="as-table" onToggle={(event) => setOpen((event.currentTarget as HTMLDetailsElement).open)}>
      <summary>as table</summary>
      {open ? (
        <Rows label={title} heads={["From", ...lines.map((each) => each.label)]} numeric={lines.map((_, at) => at + 1)}>
          {Array.from({ length: rows }, (_, row) => (
            <tr key={row}>
              <td>{when(since + (stepS * whole * row) / rows)}</td>
              {columns.map((points, column) => {
                const value = points[row];
                return (
                  <td key={column} class="num">
                    {value === null || value === undefined ? "–" : format(value)}
                  </td>
                );
              })}
            </tr>
          ))}
        </Rows>
      ) : null}
    </details>
  );
}
