"""Secrets without their values, and the key they are sealed with."""

from ares.model.base import Record


class SecretView(Record, frozen=True):
    """All that anybody is ever told about a secret."""

    name: str
    version: int
    size: int
    created_at: float
    created_by: str
    updated_at: float
    updated_by: str
    # Which key it is sealed with, and whether the server that answers has it.
    key_id: str
    readable: bool = True


class KeyRotation(Record, frozen=True):
    """What became of the key. With `left` above 0 it is not over: rotate again to go on."""

    key_id: str
    # Whether a new key was made, or an earlier rotation was finished.
    made: bool
    rewrapped: int
    left: int = 0
