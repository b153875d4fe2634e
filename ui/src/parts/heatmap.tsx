// A cell per GPU on a canvas: colour is activity, a filled frame is held, a glyph is a state. The table says the same.
import { useEffect, useRef, useState } from "preact/hooks";
import type { GpuMap } from "../api/types";

export const CELL = 18;
const GAP = 3;

export interface Cell {
  node: number;
  gpu: number;
}

/** Cells of a row of nodes, from left to right, broken into lines of a width. */
export interface Place {
  x: number;
  y: number;
  gpu: number;
  node: number;
}

/** Where each GPU is drawn: nodes one after another, each in a block of up to eight in a line. */
export function layout(
  map: GpuMap,
  nodes: readonly number[],
  width: number,
): { places: Place[]; labels: { x: number; y: number; node: number }[]; height: number } {
  const places: Place[] = [];
  const labels: { x: number; y: number; node: number }[] = [];
  const step = CELL + GAP;
  let x = 0;
  let y = 0;
  let tall = 0;
  for (const node of nodes) {
    const seen = map.nodes[node];
    if (!seen) continue;
    const columns = Math.max(1, Math.min(8, seen.gpus));
    const wide = Math.max(columns * step, 8 * step) + 10;
    if (x > 0 && x + wide > width) {
      x = 0;
      y += tall;
      tall = 0;
    }
    labels.push({ x, y, node });
    for (let at = 0; at < seen.gpus; at += 1) {
      places.push({
        x: x + (at % columns) * step,
        y: y + 16 + Math.floor(at / columns) * step,
        gpu: seen.first + at,
        node,
      });
    }
    tall = Math.max(tall, 16 + Math.ceil(seen.gpus / columns) * step + 8);
    x += wide;
  }
  return { places, labels, height: y + tall };
}

function colours(): Record<string, string> {
  const style = getComputedStyle(document.documentElement);
  const names = ["--free", "--held", "--cold", "--warm", "--hot", "--dim", "--text", "--line", "--bad", "--accent"];
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(name).trim()]));
}

export function Heatmap(props: {
  map: GpuMap;
  nodes: readonly number[];
  chosen: number;
  choose: (gpu: number) => void;
}) {
  const { map, nodes, chosen, choose } = props;
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(800);
  const [, setShade] = useState(0);
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const watch = new ResizeObserver(() => setWidth(element.clientWidth));
    watch.observe(element);
    const shades = window.matchMedia("(prefers-color-scheme: dark)");
    const redraw = () => setShade((shade) => shade + 1);
    const theme = new MutationObserver(redraw);
    theme.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    shades.addEventListener("change", redraw);
    return () => {
      watch.disconnect();
      theme.disconnect();
      shades.removeEventListener("change", redraw);
    };
  }, []);
  const drawn = layout(map, nodes, width);
  useEffect(() => {
    const element = canvas.current;
    const pen = element?.getContext("2d");
    if (!element || !pen) return;
    const scale = window.devicePixelRatio || 1;
    element.width = width * scale;
    element.height = drawn.height * scale;
    pen.scale(scale, scale);
    draw(pen, map, drawn, chosen);
  });
  const at = (event: MouseEvent): number => {
    const rect = canvas.current?.getBoundingClientRect();
    if (!rect) return -1;
    const x = event.clientX - rect.left;
    const y = event.clientY - rect.top;
    return (
      drawn.places.find((place) => x >= place.x && x < place.x + CELL && y >= place.y && y < place.y + CELL)?.gpu ?? -1
    );
  };
  const step = (event: KeyboardEvent) => {
    const here = drawn.places.findIndex((place) => place.gpu === chosen);
    const moves: Record<string, number> = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 8, ArrowUp: -8 };
    const by = moves[event.key];
    if (by === undefined) return;
    event.preventDefault();
    choose(drawn.places[Math.max(0, Math.min(drawn.places.length - 1, here < 0 ? 0 : here + by))]?.gpu ?? -1);
  };
  return (
    <div ref={box} class="heat">
      <canvas
        ref={canvas}
        style={{ width: `${width}px`, height: `${drawn.height}px` }}
        role="application"
        aria-label="GPUs, a cell each. Arrow keys go from one to the next; what it is stands below. The table says the same."
        tabIndex={0}
        onClick={(event) => choose(at(event))}
        onMouseMove={(event) => {
          const gpu = at(event);
          if (canvas.current) canvas.current.style.cursor = gpu >= 0 ? "pointer" : "";
        }}
        onKeyDown={step}
      />
    </div>
  );
}

function draw(pen: CanvasRenderingContext2D, map: GpuMap, drawn: ReturnType<typeof layout>, chosen: number): void {
  const tone = colours();
  pen.font = "11px system-ui, sans-serif";
  pen.textBaseline = "top";
  for (const label of drawn.labels) {
    const node = map.nodes[label.node];
    if (!node) continue;
    pen.fillStyle = node.ready ? (tone["--dim"] ?? "") : (tone["--bad"] ?? "");
    const mark = !node.ready ? "✕ " : node.drained ? "⇥ " : node.cordoned ? "⊘ " : "";
    const text = mark + node.name;
    pen.fillText(text.length > 24 ? `${text.slice(0, 23)}…` : text, label.x, label.y + 1);
  }
  for (const place of drawn.places) {
    const node = map.nodes[place.node];
    const held = (map.heldMilli[place.gpu] ?? 0) > 0;
    const busy = map.busy[place.gpu] ?? -1;
    pen.globalAlpha = node?.ready ? 1 : 0.4;
    pen.fillStyle = shade(tone, held, busy);
    pen.fillRect(place.x, place.y, CELL, CELL);
    if (held) {
      pen.lineWidth = 2;
      pen.strokeStyle = tone["--held"] ?? "";
      pen.strokeRect(place.x + 1, place.y + 1, CELL - 2, CELL - 2);
    }
    const glyph = !node?.ready
      ? "✕"
      : node.cordoned
        ? "⊘"
        : held && busy >= 0 && busy < 5
          ? "z"
          : (map.heldMilli[place.gpu] ?? 0) % 1000
            ? "½"
            : "";
    if (glyph) {
      pen.fillStyle = tone["--text"] ?? "";
      pen.textAlign = "center";
      pen.fillText(glyph, place.x + CELL / 2, place.y + 4);
      pen.textAlign = "left";
    }
    pen.globalAlpha = 1;
    if (place.gpu === chosen) {
      pen.lineWidth = 2;
      pen.strokeStyle = tone["--accent"] ?? "";
      pen.strokeRect(place.x - 2, place.y - 2, CELL + 4, CELL + 4);
    }
  }
}

function shade(tone: Record<string, string>, held: boolean, busy: number): string {
  if (!held) return tone["--free"] ?? "";
  if (busy < 0) return tone["--cold"] ?? "";
  return (busy < 5 ? tone["--cold"] : busy < 60 ? tone["--warm"] : tone["--hot"]) ?? "";
}
