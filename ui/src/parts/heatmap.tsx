// A cell per GPU on a canvas: colour is activity, a filled frame is held, a glyph is a state. The table says the same.
import { useEffect, useRef, useState } from "preact/hooks";
import type { GpuMap } from "../api/types";

const GAP = 3;
export type Colour = "activity" | "job" | "heat";

/** The fewer there are, the larger each is drawn. */
export function cellSize(gpus: number): number {
  return gpus <= 64 ? 30 : gpus <= 512 ? 22 : 16;
}

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
  cell: number,
): { places: Place[]; labels: { x: number; y: number; node: number }[]; height: number } {
  const places: Place[] = [];
  const labels: { x: number; y: number; node: number }[] = [];
  const step = cell + GAP;
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
  point: (gpu: number) => void;
  open: (gpu: number) => void;
  /** Colour by what: how busy it is, or whose it is. */
  colour: Colour;
  /** The job whose cells are marked; -1 for none. */
  lit: number;
}) {
  const { map, nodes, chosen, choose, point, open } = props;
  const cell = cellSize(map.index.length);
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
  const drawn = layout(map, nodes, width, cell);
  useEffect(() => {
    const element = canvas.current;
    const pen = element?.getContext("2d");
    if (!element || !pen) return;
    const scale = window.devicePixelRatio || 1;
    element.width = width * scale;
    element.height = drawn.height * scale;
    pen.scale(scale, scale);
    draw(pen, map, drawn, cell, props);
  });
  const at = (event: MouseEvent): number => {
    const rect = canvas.current?.getBoundingClientRect();
    if (!rect) return -1;
    const x = event.clientX - rect.left;
    const y = event.clientY - rect.top;
    return (
      drawn.places.find((place) => x >= place.x && x < place.x + cell && y >= place.y && y < place.y + cell)?.gpu ?? -1
    );
  };
  const step = (event: KeyboardEvent) => {
    const here = drawn.places.findIndex((place) => place.gpu === chosen);
    const moves: Record<string, number> = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 8, ArrowUp: -8 };
    if (event.key === "Enter" && chosen >= 0) open(chosen);
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
        aria-label="GPUs, a cell each. Arrow keys go from one to the next, Enter opens its job; what it is stands below. The table says the same."
        tabIndex={0}
        onClick={(event) => choose(at(event))}
        onMouseMove={(event) => {
          const gpu = at(event);
          point(gpu);
          if (canvas.current) canvas.current.style.cursor = gpu >= 0 ? "pointer" : "";
        }}
        onMouseLeave={() => point(-1)}
        onDblClick={(event) => open(at(event))}
        onKeyDown={step}
      />
    </div>
  );
}

function draw(
  pen: CanvasRenderingContext2D,
  map: GpuMap,
  drawn: ReturnType<typeof layout>,
  cell: number,
  { chosen, colour, lit }: { chosen: number; colour: Colour; lit: number },
): void {
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
  drawn.places.forEach((place, at) => {
    const node = map.nodes[place.node];
    const job = map.job[place.gpu] ?? -1;
    const held = (map.heldMilli[place.gpu] ?? 0) > 0;
    const busy = map.busy[place.gpu] ?? -1;
    const heat = map.celsius[place.gpu] ?? -1;
    pen.globalAlpha = node?.ready ? 1 : 0.4;
    pen.fillStyle =
      colour === "job" && job >= 0
        ? hue(map.jobs[job]?.id ?? "")
        : shade(tone, held, colour === "heat" ? warmth(heat) : busy);
    pen.fillRect(place.x, place.y, cell, cell);
    if (held) {
      pen.lineWidth = 2;
      pen.strokeStyle = (lit >= 0 && job === lit ? tone["--text"] : tone["--held"]) ?? "";
      pen.strokeRect(place.x + 1, place.y + 1, cell - 2, cell - 2);
      if (isJoined(map, drawn.places, at)) {
        // GPUs of one job hang together, so that jobs are told apart without colour.
        pen.fillStyle = pen.strokeStyle;
        pen.fillRect(place.x + cell, place.y + cell / 2 - 3, GAP, 6);
      }
    }
    const glyph = !node?.ready
      ? "✕"
      : node.cordoned
        ? "⊘"
        : colour === "heat" && heat >= HOT
          ? "!"
          : held && busy >= 0 && busy < 5
            ? "z"
            : (map.heldMilli[place.gpu] ?? 0) % 1000
              ? "½"
              : "";
    if (glyph) {
      pen.fillStyle = tone["--text"] ?? "";
      pen.textAlign = "center";
      pen.fillText(glyph, place.x + cell / 2, place.y + cell / 2 - 5);
      pen.textAlign = "left";
    }
    pen.globalAlpha = 1;
    if (place.gpu === chosen) {
      pen.lineWidth = 2;
      pen.strokeStyle = tone["--accent"] ?? "";
      pen.strokeRect(place.x - 2, place.y - 2, cell + 4, cell + 4);
    }
  });
}

/** Whether the next cell in the same line of the same node is of the same job. */
export function isJoined(map: GpuMap, places: readonly Place[], at: number): boolean {
  const [here, next] = [places[at], places[at + 1]];
  if (!here || !next || here.node !== next.node || here.y !== next.y) return false;
  const job = map.job[here.gpu] ?? -1;
  return job >= 0 && job === map.job[next.gpu];
}

/** A colour of its own for each job, the same on every page and day. */
export function hue(id: string): string {
  let sum = 0;
  for (let at = 0; at < id.length; at += 1) sum = (sum * 31 + id.charCodeAt(at)) % 3600;
  return `hsl(${sum / 10} 55% 45%)`;
}

// Degrees from which a GPU is warm, and hot: drivers slow it down some ten degrees later.
const WARM = 50;
const HOT = 80;

/** Degrees as a part of what `shade` tells apart. */
function warmth(celsius: number): number {
  return celsius < 0 ? -1 : celsius < WARM ? 0 : celsius < HOT ? 50 : 100;
}

function shade(tone: Record<string, string>, held: boolean, busy: number): string {
  if (!held) return tone["--free"] ?? "";
  if (busy < 0) return tone["--cold"] ?? "";
  return (busy < 5 ? tone["--cold"] : busy < 60 ? tone["--warm"] : tone["--hot"]) ?? "";
}
