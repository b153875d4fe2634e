"""What an agent is told about how to run jobs."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ares.agent.attempts.owners import Owners


@dataclass(frozen=True, slots=True)
class AgentSettings:
    # Already reduced to what jobs may inherit, see `environment.inherited`.
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    log_bytes_max: int = 64 * 1024 * 1024
    # How long the end of an attempt waits for its output, when the control plane cannot keep that.
    log_wait_s: float = 60.0
    # What comes faster is dropped, with a note; 0 sets no such limit.
    log_bytes_per_s: int = 0
    file_bytes_max: int = 1 << 40
    processes_max: int = 4096
    open_files_max: int = 65_536
    # With less than this left on the disk, the job that holds most of it is ended.
    disk_reserve_bytes: int = 256 * 1024 * 1024
    # When the agent itself is told to stop: the time that what runs has to save its work and to end, and how much of
    # that lies between SIGTERM and SIGKILL, at most.
    drain_s: float = 60.0
    shutdown_grace_s: float = 10.0
    # How long a leaving agent waits for its last reports to be acknowledged.
    farewell_s: float = 5.0
    poll_every_s: float = 0.2
    disk_look_every_s: float = 0.5
    # An attempt whose directory holds more is ended; 0 sets no such limit.
    workspace_bytes_max: int = 0
    # Who attempts in a sandbox run as, where every tenant has a user of its own.
    owners: Owners | None = None
