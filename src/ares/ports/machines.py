"""Where machines come from: a cloud, a rack with a switch, or processes of this machine."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

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


# By the name that pools have for them.
Providers = Mapping[str, MachineProvider]
