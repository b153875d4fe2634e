"""Which replica to ask: any of them serves, so a client goes on with the next one when one is gone."""

from ares.edge.client.calls.calls import Reply
from ares.edge.client.steps import Broken

UNAVAILABLE = 503


class Addresses:
    """The replicas a client knows, and the one to ask first. Flows share it: the worst of a race is a detour."""

    def __init__(self, urls: tuple[str, ...]) -> None:
        self._urls = urls
        # By chance: the clients of a platform spread over its replicas without a load balancer.
        self.current = urls[0] if len(urls) == 1 else choice(urls)

    def order(self) -> tuple[str, ...]:
        """All of them, beginning with the current one."""
        start = self._urls.index(self.current)
        return self._urls[start:] + self._urls[:start]

    def leave(self, url: str) -> None:
        """Goes on to the next one, unless another flow has left this one already."""
        if self.current == url:
            order = self.order()
            self.current = order[1 % len(order)]


def choice(urls: tuple[str, ...]) -> str:
    # Imported where there is a choice: most commands know one address, and live shorter than the import.
    from random import choice as any_of

    return any_of(urls)


class Tour:
    """One flow's way round the addresses: it pauses only after each of them was tried."""

    def __init__(self, addresses: Addresses) -> None:
        self._addresses = addresses
        self._tried: set[str] = set()
        self.at = addresses.current
        # Address -> why there was nothing to be had, in the order of trying.
        self.said: dict[str, str] = {}

    def next(self) -> str:
        """The address to ask now."""
        order = self._addresses.order()
        self.at = next((url for url in order if url not in self._tried), order[0])
        return self.at

    def answered(self) -> None:
        """The address works: every flow of the client begins with it from now on."""
        self._addresses.current = self.at
        self.said.clear()

    def failed(self, why: Reply | Broken) -> bool:
        """Leaves the address. True: another one is left to be tried at once; False: it is time to pause."""
        self.said.pop(self.at, None)
        self.said[self.at] = why.detail if isinstance(why, Broken) else f"answered {why.status}"
        self._addresses.leave(self.at)
        # Forgotten only here, not on success: replicas that all fail quickly must not be asked in a busy loop.
        self._tried.add(self.at)
        if self._tried.issuperset(self._addresses.order()):
            self._tried.clear()
        return bool(self._tried)

    def note(self, answer: Reply | Broken) -> bool:
        """Takes in what came back. True: another address is to be asked at once."""
        if gone(answer):
            return self.failed(answer)
        self.answered()
        return False


def gone(answer: Reply | Broken) -> bool:
    """Whether another replica may know better: no answer, or one that only says `not me, not now`."""
    return isinstance(answer, Broken) or answer.status == UNAVAILABLE
