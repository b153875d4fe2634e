// A list of any length: rows that are in sight, and a few around them, are all that is drawn.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

const AROUND = 8;

export interface GridProps<T> {
  label: string;
  heads: readonly { key: string; label: string; class?: string }[];
  rows: readonly T[];
  /** How many there are, also those that have not been fetched; -1: not known. */
  total: number;
  rowHeight: number;
  keyOf: (row: T) => string;
  cells: (row: T) => readonly ComponentChildren[];
  open: (row: T) => void;
  /** Called when the end comes near. */
  more?: () => void;
  foot?: ComponentChildren;
}

export function Grid<T>(props: GridProps<T>) {
  const { rows, rowHeight } = props;
  const box = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(600);
  const [focus, setFocus] = useState(0);
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const watch = new ResizeObserver(() => setHeight(element.clientHeight));
    watch.observe(element);
    return () => watch.disconnect();
  }, []);
  const first = Math.max(0, Math.floor(top / rowHeight) - AROUND);
  const last = Math.min(rows.length, Math.ceil((top + height) / rowHeight) + AROUND);
  useEffect(() => {
    if (last >= rows.length - 3 * AROUND) props.more?.();
  }, [last, rows.length, props.more]);
  const focusRow = (at: number) => {
    const next = Math.max(0, Math.min(rows.length - 1, at));
    setFocus(next);
    const element = box.current;
    if (!element) return;
    const y = next * rowHeight;
    if (y < element.scrollTop) element.scrollTop = y;
    if (y + 2 * rowHeight > element.scrollTop + element.clientHeight)
      element.scrollTop = y + 2 * rowHeight - element.clientHeight;
    window.requestAnimationFrame(() =>
      element.querySelector<HTMLElement>(`[data-at="${next}"]`)?.focus({ preventScroll: true }),
    );
  };
  const key = (event: KeyboardEvent) => {
    const page = Math.max(1, Math.floor(height / rowHeight) - 2);
    const moves: Record<string, number> = {
      ArrowDown: focus + 1,
      j: focus + 1,
      ArrowUp: focus - 1,
      k: focus - 1,
      PageDown: focus + page,
      PageUp: focus - page,
      Home: 0,
      End: rows.length - 1,
    };
    const row = rows[focus];
    if (event.key in moves) {
      event.preventDefault();
      event.stopPropagation();
      focusRow(moves[event.key] ?? 0);
    } else if (event.key === "Enter" && row) props.open(row);
  };
  const columns = props.heads.length;
  return (
    <div class="vgrid-box">
      <div
        ref={box}
        class="vgrid"
        role="grid"
        aria-label={props.label}
        aria-rowcount={props.total < 0 ? -1 : props.total + 1}
        aria-colcount={columns}
        tabIndex={rows.length === 0 ? 0 : -1}
        onScroll={(event) => setTop(event.currentTarget.scrollTop)}
        onKeyDown={key}
      >
        <div class="vrow vhead" role="row" aria-rowindex={1}>
          {props.heads.map((head) => (
            <div key={head.key} role="columnheader" class={`c-${head.key} ${head.class ?? ""}`}>
              {head.label}
            </div>
          ))}
        </div>
        <div role="rowgroup" class="vbody" style={{ height: `${rows.length * rowHeight}px` }}>
          {rows.slice(first, last).map((row, offset) => {
            const at = first + offset;
            const cells = props.cells(row);
            return (
              <div
                key={props.keyOf(row)}
                class="vrow"
                role="row"
                data-row
                data-at={at}
                aria-rowindex={at + 2}
                tabIndex={at === Math.min(focus, rows.length - 1) ? 0 : -1}
                style={{ transform: `translateY(${at * rowHeight}px)`, height: `${rowHeight}px` }}
                onFocus={() => setFocus(at)}
                onClick={(event) => {
                  if (!(event.target as Element).closest("a,button")) props.open(row);
                }}
              >
                {props.heads.map((head, cell) => (
                  <div key={head.key} role="gridcell" class={`c-${head.key} ${head.class ?? ""}`}>
                    {cells[cell]}
                  </div>
                ))}
              </div>
            );
          })}
        </div>
      </div>
      {props.foot ? <div class="vfoot">{props.foot}</div> : null}
    </div>
  );
}
