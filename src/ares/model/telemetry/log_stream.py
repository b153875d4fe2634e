"""Messages on the stream for output of loud attempts, beside the one between an agent and the control plane."""

from typing import Annotated

from msgspec import Meta

from ares.model.base import Line, Number, Record
from ares.model.link import MESSAGES_MAX, LogAck, LogChunk


class LogHello(Record, frozen=True, tag="log-hello"):
    """First message of the stream. `number` is the one that the welcome of the session named."""

    node: Line
    number: Number


class LogFrame(Record, frozen=True, tag="log-frame"):
    chunks: Annotated[tuple[LogChunk, ...], Meta(max_length=MESSAGES_MAX)]


LogMessage = LogHello | LogFrame


class LogAcks(Record, frozen=True):
    """The control plane's answer to a frame."""

    acks: tuple[LogAck, ...]
