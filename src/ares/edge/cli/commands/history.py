"""`ares history`: the jobs that ended, as a trace for `ares simulate` and `ares tune`."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from ares.edge.cli.connect import connect
from ares.edge.cli.render.output import note

if TYPE_CHECKING:
    from ares.edge.client.sync import Client

_ENDED = ("SUCCEEDED", "FAILED")


@click.command()
@click.option(
    "-f", "--file", "name", default="-", metavar="FILE", help="Where to write it.  [default: standard output]"
)
@click.pass_context
def history(ctx: click.Context, name: str) -> None:
    """Writes the machines and all jobs that ran to an end, one per line.

    \b
      ares history -f jobs.jsonl
      ares simulate jobs.jsonl -p default -p easy
    """
    client = connect(ctx)
    with click.open_file(name, "w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in _lines(client))
    note("`ares simulate` and `ares tune` take it as a trace")


def _lines(client: "Client") -> Iterator[str]:
    import json

    from ares.edge.client.calls import calls, operator

    for node in client.send(operator.nodes().raw())["nodes"]:
        yield json.dumps({"node": node["info"]})
    known: tuple[str, Any] = "", None
    for state in client.list(phase=_ENDED, sort="submitted", page=1000):
        whose = state.array or state.id
        # The tasks of an array come one after the other, and have one specification.
        if known[0] != whose:
            known = whose, client.send(calls.job(state.id).raw())["spec"]
        yield json.dumps({"spec": known[1], "state": _plain(state)})


def _plain(state: Any) -> Any:
    import msgspec

    return msgspec.json.decode(msgspec.json.encode(state))
