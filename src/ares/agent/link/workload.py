"""The attempts of one node, as a session with the control plane needs them: processes of a machine, or pods."""

from collections.abc import Iterable
from typing import Protocol

from ares.agent.link.outbox import Report
from ares.model.link import AttemptRef, LogAck, OutputAck, Resize, Start, Stop


class Workload(Protocol):
    # 0: the node has none, and joins with a new one.
    incarnation: int

    def refs(self) -> tuple[AttemptRef, ...]:
        """Attempts whose end the control plane has not acknowledged."""
        ...

    def processes_left(self) -> int: ...

    def take_limit(self, output_bytes_max: int) -> None: ...

    # ---- commands

    def begin(self, start: Start) -> None: ...

    def stop(self, command: Stop) -> None: ...

    def resize(self, command: Resize) -> None: ...

    def keep_only(self, refs: Iterable[AttemptRef]) -> None:
        """After a reconnect: an attempt that the control plane no longer grants ends at once."""
        ...

    def stop_all(self, grace_s: float, reason: str) -> None: ...

    def drop_held(self) -> None: ...

    # ---- the right to run

    def renewed(self) -> None: ...

    def fence_expired(self) -> None: ...

    # ---- answers to reports

    def settled(self, reports: Iterable[Report]) -> None: ...

    def log_kept(self, ack: LogAck) -> None: ...

    def output_kept(self, ack: OutputAck) -> None: ...
