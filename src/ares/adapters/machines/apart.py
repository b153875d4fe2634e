"""A provider of another distribution, entered in a thread of its own: what it blocks is that thread, and not the loop
that serves requests and renews leases."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from ares.ports.machines import (
    ListedMachine,
    MachineProvider,
    MachineWarning,
    NamingProvider,
    NotProvided,
    ProviderUnknown,
    WantedMachine,
    WarningProvider,
)

T = TypeVar("T")


class ApartMachines:
    """The provider as others see it. Its methods run in an event loop of its own, one call at a time."""

    def __init__(self, name: str, provider: MachineProvider) -> None:
        self._name = name
        self._provider = provider
        self._loop: asyncio.AbstractEventLoop | None = None
        # A call that hangs in there: others are not begun behind it.
        self._busy = threading.Lock()
        self._call: asyncio.Task[object] | None = None

    async def create(self, want: WantedMachine) -> str | NotProvided:
        return await self._apart(lambda: self._provider.create(want))

    async def machines(self) -> Sequence[ListedMachine]:
        return await self._apart(self._provider.machines)

    async def delete(self, ids: Sequence[str]) -> None:
        await self._apart(lambda: self._provider.delete(ids))

    async def warnings(self) -> Sequence[MachineWarning]:
        """None of a provider that does not warn."""
        provider = self._provider
        return await self._apart(provider.warnings) if isinstance(provider, WarningProvider) else ()

    async def nodes(self) -> Mapping[str, str]:
        """None of a provider whose machines have the names that they were asked for with."""
        provider = self._provider
        return await self._apart(provider.nodes) if isinstance(provider, NamingProvider) else {}

    async def _apart(self, call: Callable[[], Awaitable[T]]) -> T:
        if not self._busy.acquire(blocking=False):
            raise ProviderUnknown(f"the provider {self._name!r} has not come back from an earlier call")
        if self._loop is None:
            self._loop = _begun(self._name)
        answer = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._enter(call), self._loop))
        try:
            # Not cancelled from here: the call counts until it has really ended, over there.
            return await asyncio.shield(answer)
        except asyncio.CancelledError:
            self._loop.call_soon_threadsafe(self._give_up)
            raise

    async def _enter(self, call: Callable[[], Awaitable[T]]) -> T:
        try:
            self._call = asyncio.current_task()
            return await call()
        finally:
            self._call = None
            self._busy.release()

    def _give_up(self) -> None:
        if self._call is not None:
            self._call.cancel()


def _begun(name: str) -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    # That a plugin hangs is no reason for a server to stay.
    threading.Thread(target=loop.run_forever, name=f"provider-{name}", daemon=True).start()
    return loop
