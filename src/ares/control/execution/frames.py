"""What comes over an agent's stream, read: every field within its bounds, or the whole frame is refused."""

import msgspec

from ares.control.execution.enrolment import SessionRefused
from ares.model.link import AgentFrame

_decode = msgspec.msgpack.Decoder(AgentFrame).decode
_WHY_MAX = 300


def read_frame(data: bytes) -> AgentFrame:
    """Raises SessionRefused when a message of it is none, or says what no machine can mean."""
    try:
        return _decode(data)
    except (ValueError, RecursionError) as error:
        raise SessionRefused(f"what the agent sent cannot be taken: {str(error)[:_WHY_MAX]}", "malformed") from None
