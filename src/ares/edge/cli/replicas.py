"""Asking every replica by itself: each has something that the others have not. One that is dead ends nothing."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ares.edge.cli.connect import connect
from ares.edge.cli.render.text import printable

if TYPE_CHECKING:
    from ares.edge.client.sync import Client

T = TypeVar("T")


class Replicas:
    """Of the addresses that are known. What could not be asked is said, and is part of what is printed as JSON."""

    def __init__(self, ctx: click.Context) -> None:
        self._ctx = ctx
        self.unasked: list[dict[str, str]] = []
        self._answered = 0

    def ask(self, ask: Callable[["Client"], T]) -> Iterator[T]:
        """An answer of each that gives one. Raises the last trouble if none did."""
        from ares.edge.client.errors import AresError, ServerError, Unreachable
        from ares.edge.client.retry import Retry
        from ares.edge.client.sync import Client

        first = connect(self._ctx)
        trouble: AresError | None = None
        for url in first.endpoint.urls:
            # Few tries: the command waits, and the other replicas may answer.
            client = Client(url, first.endpoint.token, retry=Retry(attempts=2))
            self._ctx.call_on_close(client.close)
            try:
                answer = ask(client)
            except (Unreachable, ServerError) as error:
                trouble = error
                self.unasked.append({"url": url, "why": str(error)})
                continue
            self._answered += 1
            yield answer
        if trouble is not None and not self._answered:
            raise trouble

    def tell(self, chains: list[dict[str, Any]]) -> None:
        """Says what was not asked: replicas that did not answer, and chains that none of those had that did."""
        for replica in self.unasked:
            click.echo(f"not asked: {printable(replica['url'])}: {printable(replica['why'])}", err=True)
        here = {chain["chain"] for chain in chains if chain["here"]}
        missing = sorted({chain["chain"] for chain in chains} - here)
        if missing:
            names = ", ".join(map(printable, missing))
            click.echo(f"not asked: {names}, on other replicas; name their addresses in --url", err=True)
