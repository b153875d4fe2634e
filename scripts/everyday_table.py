#!/usr/bin/env python3
"""Writes the table of docs/guides/coming-from-slurm.md from scenarios/everyday.yaml. A test compares the two."""

import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "guides" / "coming-from-slurm.md"
TITLES = {"slurm": "Slurm", "kubernetes": "Kubernetes", "skypilot": "SkyPilot", "dstack": "dstack"}
_BEGIN, _END = "<!-- everyday: begin -->\n", "<!-- everyday: end -->\n"


def tables(tasks: list[dict[str, Any]]) -> str:
    """A table for each tool."""
    parts: list[str] = []
    for tool, title in TITLES.items():
        parts += ["", f"### {title}", "", "| to | there | here |", "|---|---|---|"]
        parts += [
            f"| {task['task']} | {_code(task['there'])} | {_here(task)} |" for task in tasks if task["from"] == tool
        ]
    return "\n".join([*parts, "", ""])


def _here(task: dict[str, Any]) -> str:
    lines = [line for line in task["here"].splitlines() if line.strip()]
    shown = "<br>".join(_code(line) for line in lines)
    return f"{shown}<br>*refused here until a tenant-admin has made the channel*" if task.get("refused") else shown


def _code(text: str) -> str:
    escaped = text.replace("|", "\\|")
    return f"`` {escaped} ``" if "`" in escaped else f"`{escaped}`"


def page(text: str) -> str:
    """The page with the tables as they should be."""
    tasks: list[dict[str, Any]] = yaml.safe_load((ROOT / "scenarios" / "everyday.yaml").read_text())
    head, _, rest = text.partition(_BEGIN)
    _, _, tail = rest.partition(_END)
    return f"{head}{_BEGIN}{tables(tasks)}{_END}{tail}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
    sys.stdout.write(f"wrote {PAGE.relative_to(ROOT)}\n")
