"""The HTML file: one page that needs nothing else, in light, in dark and on paper."""

from collections.abc import Iterable, Sequence

from ares.sim.report import svg

# Colours for dark pages: the same hues, light enough to be seen.
_DARK = ("#4aa3df", "#ff8c42", "#2fc79a", "#e79bc8", "#8fd0f5", "#f5b942", "#aaaaaa")

_STYLE = """
:root{color-scheme:light dark;--ink:#1a1c1f;--dim:#5c6167;--paper:#fff;--rule:#d9dce0;--best:#e3f1ea}
@media (prefers-color-scheme:dark){:root{--ink:#e6e8ea;--dim:#a2a8ae;--paper:#16181b;--rule:#363a3f;--best:#1d3b30}}
@media print{:root{--ink:#000;--dim:#333;--paper:#fff;--rule:#bbb;--best:#ddd}
section{break-inside:avoid}main{max-width:none;padding:0}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
main{max-width:1000px;margin:0 auto;padding:24px 16px 64px}
h1{font-size:1.5em;margin:.2em 0;overflow-wrap:anywhere}h2{font-size:1.15em;margin:2em 0 .3em}
h3{font-size:1em;margin:1.2em 0 .2em;overflow-wrap:anywhere}
p{margin:.3em 0;max-width:75ch;overflow-wrap:anywhere}.dim{color:var(--dim);font-size:.9em}
.wide{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{padding:4px 12px 4px 0;text-align:right;border-bottom:1px solid var(--rule);vertical-align:top}
th:first-child,td:first-child{text-align:left}thead th{max-width:16em;overflow-wrap:anywhere}
td small{color:var(--dim);display:block}td.best{background:var(--best);font-weight:600}
td.best::after{content:" \\2605"}
svg{max-width:100%;height:auto;overflow:visible}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:2px 18px;padding:0;margin:.3em 0;overflow-wrap:anywhere}
.box{display:inline-block;width:12px;height:12px;border-radius:2px;vertical-align:-1px}
.axis text{font:11px system-ui,sans-serif;fill:var(--dim)}.axis .name{fill:var(--ink)}
.axis path{stroke:var(--rule);stroke-width:1;fill:none}.axis .edge{stroke:var(--dim)}
.line{fill:none;stroke-width:1.8;stroke-linejoin:round}.crowd{stroke:#888;opacity:.55;fill:none}
rect:hover,circle:hover{stroke:var(--ink);stroke-width:1}
"""


def style() -> str:
    """The sheet, with a class per colour for lines, areas and boxes."""
    light = "".join(_coloured(index, colour) for index, colour in enumerate(svg.COLOURS))
    dark = "".join(_coloured(index, colour) for index, colour in enumerate(_DARK))
    return f"{_STYLE}{light}\n@media screen and (prefers-color-scheme:dark){{{dark}}}"


def _coloured(index: int, colour: str) -> str:
    name = f"s{index}"
    return (
        f".line.{name}{{stroke:{colour}}}rect.{name},circle.{name}{{fill:{colour}}}.box.{name}{{background:{colour}}}\n"
    )


def page(title: str, lead: Sequence[str], sections: Iterable[str]) -> str:
    """The policy forbids the page to load or run anything, whatever a trace's names contain."""
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    intro = "".join(f"<p>{svg.text(sentence)}</p>" for sentence in lead if sentence)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/>'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}"/>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>'
        f"<title>{svg.text(title)}</title><style>{style()}</style></head>\n"
        f"<body><main><h1>{svg.text(title)}</h1>{intro}\n{''.join(sections)}</main></body></html>\n"
    )


def section(title: str, *parts: str, note: str = "") -> str:
    """`parts` are markup; title and note are text."""
    said = f'<p class="dim">{svg.text(note)}</p>' if note else ""
    return f"<section><h2>{svg.text(title)}</h2>{said}{''.join(parts)}</section>\n"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Rows are made of `cell`s; the header is text."""
    head = "".join(f'<th scope="col">{svg.text(title)}</th>' for title in header)
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def cell(words: str, *, small: str = "", best: bool = False, title: str = "") -> str:
    mark = ' class="best"' if best else ""
    more = f' title="{svg.attribute(title)}"' if title else ""
    under = f"<small>{svg.text(small)}</small>" if small else ""
    return f"<td{mark}{more}>{svg.text(words)}{under}</td>"
