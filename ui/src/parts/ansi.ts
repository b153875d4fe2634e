// Terminal colours of log text as plain values. Every other control sequence is dropped: text is data, whatever it says.

export interface Span {
  text: string;
  /** Names of classes: "fg-1", "bold". */
  style: string;
}

// Sequences of colour, and all other ones a terminal would obey: CSI, OSC with its text, charset and single escapes.
const SEQUENCE =
  /\u001b\[([0-9;:]*)m|\u001b\[[0-?]*[ -/]*[@-~]|\u001b[\]PX^_][^\u0007\u001b]*(?:\u0007|\u001b\\)?|\u001b[ -/]*[0-~]|\u001b|\u009b/g;
const UNSEEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g;

interface State {
  fg: string;
  bold: boolean;
  dim: boolean;
  italic: boolean;
  underline: boolean;
}

const PLAIN: State = { fg: "", bold: false, dim: false, italic: false, underline: false };

/** The line as pieces of one style each. A carriage return starts the line over, as progress bars mean it. */
export function parse(line: string): Span[] {
  const visible = line.replace(/\r+$/, "");
  const text = visible.slice(visible.lastIndexOf("\r") + 1);
  const spans: Span[] = [];
  let state: State = { ...PLAIN };
  let from = 0;
  const add = (piece: string) => {
    const clean = piece.replace(UNSEEN, "");
    if (clean) spans.push({ text: clean, style: classes(state) });
  };
  for (const match of text.matchAll(SEQUENCE)) {
    add(text.slice(from, match.index));
    from = match.index + match[0].length;
    if (match[1] !== undefined) state = next(state, match[1].split(/[;:]/).map(Number));
  }
  add(text.slice(from));
  return spans;
}

function next(state: State, codes: number[]): State {
  const made = { ...state };
  for (let at = 0; at < codes.length; at += 1) {
    const code = codes[at] ?? 0;
    if (code === 0) Object.assign(made, PLAIN);
    else if (code === 1) made.bold = true;
    else if (code === 2) made.dim = true;
    else if (code === 3) made.italic = true;
    else if (code === 4) made.underline = true;
    else if (code === 22) made.bold = made.dim = false;
    else if (code === 23) made.italic = false;
    else if (code === 24) made.underline = false;
    else if (code >= 30 && code <= 37) made.fg = String(code - 30);
    else if (code >= 90 && code <= 97) made.fg = String(code - 90);
    else if (code === 39) made.fg = "";
    else if (code === 38 || code === 48) {
      const value = codes[at + 2] ?? 0;
      if (code === 38 && codes[at + 1] === 5) made.fg = value < 16 ? String(value % 8) : "";
      // A palette's number, or red, green and blue.
      at += codes[at + 1] === 2 ? 4 : 2;
    }
  }
  return made;
}

function classes(state: State): string {
  const found = state.fg ? [`fg-${state.fg}`] : [];
  for (const key of ["bold", "dim", "italic", "underline"] as const) if (state[key]) found.push(key);
  return found.join(" ");
}
