"""`ares logs`."""

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from ares.edge.cli.connect import connect, find_job, jobs_argument
from ares.edge.cli.options import read_moment
from ares.edge.cli.render.log_lines import TerminalFilter
from ares.edge.cli.render.text import use_colour

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ares.api.jobs import JobDetail, LogStream, StreamedLog
    from ares.edge.cli.render.log_lines import LineWriter, LogSource
    from ares.edge.client.logs import LogWish
    from ares.edge.client.sync import Client

# Sources that are followed side by side; more wait until one of them has ended.
AT_ONCE = 32
# Tasks and ranks that one command shows.
SOURCES_MAX = 1000
ALL_RANKS = -1
_RED, _PLAIN = "\x1b[31m", "\x1b[39m"
_WAITING = ("WAITING", "PENDING", "RETRYING", "PREEMPTED")


class RankType(click.ParamType[Any]):
    """A number, or `all`."""

    name = "rank"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        return ALL_RANKS if value == "all" else click.IntRange(min=0).convert(value, param, ctx)


@click.command()
@jobs_argument()
@click.option("--follow", "-f", is_flag=True, help="Go on until the job has ended, through all its attempts.")
@click.option("--tail", "-n", type=click.IntRange(min=0), metavar="LINES", help="Only the last lines.")
@click.option("--since", metavar="TIME", callback=read_moment, help="Only since then, to the minute: 10m (ago), 18:00.")
@click.option("--grep", metavar="TEXT", default="", help="Only lines that contain this text.")
@click.option("--attempt", type=click.IntRange(min=1), metavar="N", help="Of this attempt instead of the latest.")
@click.option(
    "--rank",
    type=RankType(),
    metavar="N|all",
    default="0",
    show_default=True,
    help="Of this process of a parallel job, or of all.",
)
@click.option("--stdout", is_flag=True, help="Only what was written to stdout.")
@click.option("--stderr", is_flag=True, help="Only what was written to stderr.")
@click.option("--prefix/--no-prefix", default=None, help="Begin lines with their job and rank.  [default: if several]")
@click.option("-o", "--output", type=click.Choice(("text", "json")), default="text", show_default=True,
              help="json: an object {job, rank, stream, line} for each line.")  # fmt: skip
@click.pass_context
def logs(
    ctx: click.Context, jobs: tuple[str, ...], follow: bool, tail: int | None, since: float | None, grep: str,
    attempt: int | None, rank: int, stdout: bool, stderr: bool, prefix: bool | None, output: str,
) -> None:  # fmt: skip
    """Prints what jobs wrote to stdout and stderr, or to one of them.

    JOB may be an array: its tasks are shown. Of several jobs, tasks or ranks (--rank all) every line begins with where
    it comes from; with -f they come side by side. -f on a job that waits says for what, and begins when it starts.

    Bytes of a single job are passed on as they are when piped. On a terminal, colours are kept and all other
    control sequences are dropped; what was written to stderr is red. Between attempts -f writes a line to stderr.

    \b
      ares logs -f JOB
      ares logs JOB --stderr
      ares logs -f ARRAY --grep loss
      ares logs JOB1 JOB2 --since 10m
    """
    from ares.edge.client.logs import LogWish

    client = connect(ctx)
    if tail is not None and since is not None:
        raise click.UsageError("--tail and --since exclude each other", ctx)
    if stdout and stderr:
        raise click.UsageError("--stdout and --stderr exclude each other; without them both are shown", ctx)
    stream: LogStream | None = "stdout" if stdout else "stderr" if stderr else None
    found = sources(client, [find_job(client, job) for job in jobs], rank)
    plain = len(found) == 1 and not grep and output == "text" and not prefix
    if plain:
        (source,) = found
        if follow:
            say_waiting(client, source.job)
        copy_log(client, source.job, LogWish(follow, tail, attempt, source.rank, since, stream))
        return
    from ares.edge.cli.render.log_lines import LineWriter

    labelled = len(found) > 1 if prefix is None else prefix
    shown = found if labelled else [source._replace(label="") for source in found]
    writer = LineWriter(shown, grep=grep, as_json=output == "json")
    wish = LogWish(follow, tail, attempt, 0, since, stream)
    if follow:
        _follow_all(ctx, shown, writer, wish)
    else:
        for source in shown:
            _copy_lines(client, source, writer, grep if tail is None and since is None else "", wish)


def sources(client: "Client", ids: list[str], rank: int) -> "list[LogSource]":
    """The ranks of the jobs, and of the tasks of arrays. Labels are as short as they can be."""
    from ares.edge.cli.render.log_lines import LogSource

    single = len(ids) == 1
    found: list[LogSource] = []
    for job_id in ids:
        detail = client.get(job_id)
        if detail.array_counts is None:
            ranks, name = _ranks(detail) if rank == ALL_RANKS else (rank,), job_id
            for number in ranks:
                if rank == ALL_RANKS:
                    name = f"rank {number}" if single else f"{job_id}.{number}"
                found.append(LogSource(job_id, number, name))
            continue
        for task in client.list(array=job_id, sort="submitted", page=SOURCES_MAX):
            found.append(LogSource(task.id, max(rank, 0), f"_{task.index}" if single else task.id))
            if len(found) >= SOURCES_MAX:
                break
    if len(found) >= SOURCES_MAX:
        click.echo(f"note: only the first {SOURCES_MAX} are shown; name tasks to see others", err=True)
    return found[:SOURCES_MAX]


def _ranks(detail: "JobDetail") -> tuple[int, ...]:
    """Those that run or ran; of a gang that waits, those it asks for."""
    placed = sorted({place.rank for place in detail.state.placements})
    gang = detail.spec.gang
    return tuple(placed) or tuple(range(1 if gang is None else gang.ranks))


def _copy_lines(client: "Client", source: "LogSource", writer: "LineWriter", grep: str, wish: "LogWish") -> None:
    """With `grep` the server looks for the lines, and sends no others."""
    if grep:
        found = client.search_logs(source.job, grep, attempt=wish.attempt, rank=source.rank, stream=wish.stream)
        for line in found:
            writer.line(source, line.text, line.stream)
        return
    for piece in client.log_pieces(source.job, replace(wish, rank=source.rank)):
        for stream, data in parts(piece):
            writer.feed(source, data, stream)
    writer.end(source)


def _follow_all(ctx: click.Context, found: "list[LogSource]", writer: "LineWriter", wish: "LogWish") -> None:
    """Side by side, in the order of the list where there are too many."""
    from concurrent.futures import ThreadPoolExecutor, wait

    def copy(source: "LogSource") -> None:
        client = connect(ctx, patient=True)
        say_waiting(client, source.job)
        _copy_lines(client, source, writer, "", wish)

    pool = ThreadPoolExecutor(max_workers=min(AT_ONCE, len(found)))
    try:
        futures = [pool.submit(copy, source) for source in found]
        for future in wait(futures).done:
            future.result()
    finally:
        # Ctrl-C must not wait for streams that may last for days.
        pool.shutdown(wait=False, cancel_futures=True)


def say_waiting(client: "Client", job_id: str) -> None:
    """Until the job's first attempt has begun: what it waits for, on stderr, whenever that changes."""
    from ares.edge.cli.render.job_cells import waits_for
    from ares.edge.cli.render.text import printable

    said = ""
    if client.get(job_id).state.attempt:
        return
    for detail in client.watch(job_id):
        state = detail.state
        if state.attempt or state.phase not in _WAITING:
            return
        reason = waits_for(detail.waiting) if detail.waiting is not None else state.reason or "to be placed"
        ahead = f" ({detail.queue_position} ahead of it)" if detail.queue_position else ""
        text = f"-- {job_id} waits: {printable(reason)}{ahead} --"
        if text != said:
            click.echo(text, err=True)
            said = text


def parts(piece: "StreamedLog") -> "Iterator[tuple[LogStream, bytes]]":
    """The piece, cut where the stream changes."""
    at = 0
    for low, high in piece.stderr:
        if at < low:
            yield "stdout", piece.data[at:low]
        yield "stderr", piece.data[low:high]
        at = high
    if at < len(piece.data):
        yield "stdout", piece.data[at:]


def copy_log(client: "Client", job_id: str, wish: "LogWish") -> None:
    """Writes output as it comes, with a line on stderr ahead of each further attempt."""
    out = _Terminal() if sys.stdout.isatty() else _Pipe()

    def separate(attempt: int) -> None:
        # Where the other end is a person, the line must not hang on to half a line of output.
        start = "\n" if out.mid_line and sys.stdout.isatty() else ""
        click.echo(f"{start}-- attempt {attempt}{_node_of(client, job_id, attempt)} --", err=True)

    try:
        if isinstance(out, _Pipe):
            for chunk in client.logs(
                job_id, follow=wish.follow, tail=wish.tail, attempt=wish.attempt, rank=wish.rank, since=wish.since,
                stream=wish.stream, on_attempt=separate,
            ):  # fmt: skip
                out.write(chunk)
        else:
            for piece in client.log_pieces(job_id, wish, separate):
                for stream, data in parts(piece):
                    out.write(data, stream)
    finally:
        out.end()


def _node_of(client: "Client", job_id: str, attempt: int) -> str:
    """From the ledger: the job itself may be further by now."""
    from ares.edge.cli.render.text import printable

    events = client.job_events(job_id)
    node = next((e.data.get("node") for e in events if e.kind == "bound" and e.attempt == attempt), None)
    return f" on {printable(str(node))}" if node else ""


class _Pipe:
    """Bytes as they are."""

    mid_line = False

    def write(self, chunk: bytes) -> None:
        sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()

    def end(self) -> None:
        return


class _Terminal:
    """Text that cannot drive the terminal."""

    def __init__(self) -> None:
        self._clean = TerminalFilter()
        self._coloured = use_colour()
        self.mid_line = False

    def write(self, chunk: bytes, stream: "LogStream") -> None:
        text = self._clean.feed(chunk)
        self._put(f"{_RED}{text}{_PLAIN}" if text and stream == "stderr" and self._coloured else text)

    def end(self) -> None:
        self._put(self._clean.end())

    def _put(self, text: str) -> None:
        self.mid_line = not text.removesuffix(_PLAIN).endswith("\n") if text else self.mid_line
        sys.stdout.write(text)
        sys.stdout.flush()
