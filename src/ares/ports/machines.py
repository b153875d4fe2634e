"""Where machines come from: a cloud, a rack with a switch, or processes of this machine."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from ares.model.scaling import NodeShape


class WantedMachine(NamedTuple):
    """`id` is the token: asked for twice, there is one machine. Its agent joins by `join`, which is a secret."""

    id: str
    pool: str
    node: str
    shape: NodeShape
    servers: tuple[str, ...]
    join: str


class ListedMachine(NamedTuple):
    """A machine that a provider has. `at`: when it was created, in seconds since the epoch."""

    id: str
    handle: str
    at: float


class MachineWarning(NamedTuple):
    """A provider will take this machine back soon, whatever runs there: a spot machine that others pay more for."""

    id: str
    why: str


class NotProvided(NamedTuple):
    """There is certainly no machine. `lasting`: the same wish will never be met."""

    why: str
    lasting: bool = False


class ProviderUnknown(Exception):
    """Whether it was done is not known: it is asked for again, with the same token."""


class MachineProvider(Protocol):
    """What a plugin gives, under the group `ares.providers`. Machines carry their id, and the name of the cluster."""

    async def create(self, want: WantedMachine) -> str | NotProvided:
        """The provider's name for the machine of this id, new or not. Raises ProviderUnknown."""
        ...

    async def machines(self) -> Sequence[ListedMachine]:
        """All machines that were created for this cluster and are not gone. Raises ProviderUnknown."""
        ...

    async def delete(self, ids: Sequence[str]) -> None:
        """Returns when they are gone, or on their way and billed no more. Raises ProviderUnknown."""
        ...


@runtime_checkable
class WarningProvider(Protocol):
    """A provider that takes machines back by itself, and says so before. Asked every few seconds."""

    async def warnings(self) -> Sequence[MachineWarning]:
        """Of all machines that it will take back. Raises ProviderUnknown."""
        ...


@runtime_checkable
class NamingProvider(Protocol):
    """A provider whose machines become nodes of another name than was asked for: a cluster names its nodes itself."""

    async def nodes(self) -> Mapping[str, str]:
        """By the machine's id: the node that it has become, where it has. Asked while a machine is on its way. Raises
        ProviderUnknown."""
        ...


class PriceSource(Protocol):
    """Where a catalogue of prices is."""

    @property
    def place(self) -> str: ...

    async def read(self) -> bytes:
        """All of it. Raises OSError."""
        ...


# By the name that pools have for them.
Providers = Mapping[str, MachineProvider]
