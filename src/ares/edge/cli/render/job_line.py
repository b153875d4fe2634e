"""The line that shows how a job does while one waits for it. On stderr, gone when it is over."""

import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from ares.api.jobs import JobDetail


class StatusLine:
    """A spinner with the job's state."""

    def __init__(self) -> None:
        self._detail: JobDetail | None = None
        self._live: Any = None
        self._spinner: Any = None
        self._width = 80

    def __enter__(self) -> Self:
        # Loaded only when there is a terminal to draw on.
        from rich.console import Console
        from rich.live import Live
        from rich.spinner import Spinner

        console = Console(stderr=True)
        self._width = console.width
        self._spinner = Spinner("dots")
        self._live = Live(get_renderable=self._render, console=console, refresh_per_second=5, transient=True)
        self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._live.stop()

    def show(self, detail: "JobDetail") -> None:
        self._detail = detail

    def _render(self) -> Any:
        from rich.text import Text

        from ares.edge.cli.render.table import cut

        words = "asking" if self._detail is None else status(self._detail, time.time())
        # The spinner and a space come before it. One line only: two would flicker.
        self._spinner.update(text=Text(cut(words, self._width - 3)))
        return self._spinner


def status(detail: "JobDetail", now: float) -> str:
    """The job in a few words: train RUNNING on node-1 for 2m, 40% epoch 4."""
    from ares.edge.cli.render.job_cells import counts, nodes, run_time, waits_for, why
    from ares.edge.cli.render.text import duration, printable

    state, progress = detail.state, detail.progress
    if detail.array_counts is not None:
        reason = "" if detail.waiting is None else f" - {waits_for(detail.waiting)}"
        return printable(f"{state.name} {counts(detail.array_counts)}{reason}")
    words = [state.name, state.phase]
    if state.phase == "RUNNING":
        words += [f"on {nodes(state.placements)}", f"for {run_time(state, now) or '0s'}"]
    else:
        words += [f"for {duration(now - (state.queued_at or state.submitted_at))}"]
    if detail.queue_position:
        words.append(f"({detail.queue_position} ahead)")
    if reason := why(state, now, detail.waiting):
        words.append(f"- {reason}")
    if progress is not None:
        fraction = "" if progress.fraction is None else f"{progress.fraction:.0%} "
        words.append(f"- {fraction}{progress.message}")
    return printable(" ".join(words))
