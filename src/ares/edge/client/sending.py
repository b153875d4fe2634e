"""What the groups of methods of both clients are built on: a way to send a call, and to follow an answer in pieces."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator
from typing import Any, TypeVar

from ares.edge.client.addresses import Addresses
from ares.edge.client.calls.calls import Call
from ares.edge.client.flows import Flow, Flows
from ares.edge.client.settings import Endpoint

T = TypeVar("T")


class Sends(ABC):
    """Of the blocking client."""

    endpoint: Endpoint
    _flows: Flows

    @property
    def addresses(self) -> Addresses:
        return self._flows.addresses

    @abstractmethod
    def send(self, call: Call[T]) -> T:
        """The typed answer, or what went wrong as an exception."""

    @abstractmethod
    def _iterate(self, flow: Flow[None]) -> Iterator[Any]:
        """What comes of a flow, as it comes."""


class AsyncSends(ABC):
    """Of the asynchronous client."""

    endpoint: Endpoint
    _flows: Flows

    @property
    def addresses(self) -> Addresses:
        return self._flows.addresses

    @abstractmethod
    async def send(self, call: Call[T]) -> T:
        """The typed answer, or what went wrong as an exception."""

    @abstractmethod
    def _iterate(self, flow: Flow[None]) -> AsyncIterator[Any]:
        """What comes of a flow, as it comes."""
