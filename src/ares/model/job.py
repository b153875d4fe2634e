"""What a person asks for: the job's specification, immutable once admitted."""

from typing import Annotated, Literal

from msgspec import Meta

from ares.model.base import LabelKey, LabelValue, Name, Record

Priority = Literal["CRITICAL", "HIGH", "NORMAL", "LOW", "BEST_EFFORT"]
PRIORITIES: tuple[Priority, ...] = ("CRITICAL", "HIGH", "NORMAL", "LOW", "BEST_EFFORT")
Effects = Literal["staged", "fenced", "idempotent", "unsafe"]
Restart = Literal["never", "on-failure", "always"]
FailureClass = Literal["exit", "signal", "oom", "time-limit", "node-lost", "staging"]
FAILURE_CLASSES: tuple[FailureClass, ...] = ("exit", "signal", "oom", "time-limit", "node-lost", "staging")
WarnSignal = Literal["SIGUSR1", "SIGUSR2", "SIGINT", "SIGTERM", "SIGHUP"]

Arg = Annotated[str, Meta(max_length=131_072, pattern=r"^[^\x00]*$(?!\n)")]
EnvKey = Annotated[str, Meta(min_length=1, max_length=256, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$(?!\n)")]
EnvValue = Annotated[str, Meta(max_length=65_536, pattern=r"^[^\x00]*$(?!\n)")]

ARGV_BYTES_MAX = 128 * 1024
ENV_BYTES_MAX = 64 * 1024
ARRAY_TASKS_MAX = 100_000


class Resources(Record, frozen=True):
    """Integers only: shares are in thousandths, memory in MiB."""

    cpu_milli: Annotated[int, Meta(ge=1, le=4_096_000)] = 1000
    memory_mib: Annotated[int, Meta(ge=1, le=64 * 1024 * 1024)] = 256
    gpus: Annotated[int, Meta(ge=0, le=1024)] = 0
    gpu_model: Annotated[str, Meta(max_length=64, pattern=r"^[A-Za-z0-9 ._-]+$(?!\n)")] | None = None


class RetryPolicy(Record, frozen=True):
    """How often and how patiently a failed attempt is repeated. Delays use full jitter."""

    limit: Annotated[int, Meta(ge=0, le=100)] = 3
    base_s: Annotated[float, Meta(ge=0.0, le=3600.0)] = 1.0
    multiplier: Annotated[float, Meta(ge=1.0, le=10.0)] = 2.0
    max_s: Annotated[float, Meta(ge=0.0, le=86_400.0)] = 300.0
    # Overrides of `limit` for single failure classes.
    class_limits: dict[FailureClass, Annotated[int, Meta(ge=0, le=100)]] = {}
    # Exit codes that are never worth repeating.
    final_exit_codes: tuple[Annotated[int, Meta(ge=1, le=255)], ...] = ()


class Warn(Record, frozen=True):
    """A signal sent to the job ahead of its wall-time limit."""

    signal: WarnSignal = "SIGUSR1"
    before_s: Annotated[float, Meta(ge=0.0, le=86_400.0)] = 60.0


class JobSpec(Record, frozen=True):
    """The job as asked for. Every field is bounded; `core.admit` checks what spans fields."""

    command: Annotated[tuple[Arg, ...], Meta(min_length=1, max_length=4096)]
    name: Name = "job"
    env: dict[EnvKey, EnvValue] = {}
    # Absolute directory to start in; the default is the attempt's private directory.
    workdir: Annotated[str, Meta(max_length=4096, pattern=r"^/[^\x00-\x1f\x7f]*$(?!\n)")] | None = None
    resources: Resources = Resources()
    priority: Priority = "NORMAL"
    effects: Effects = "staged"
    restart: Restart = "on-failure"
    retry: RetryPolicy = RetryPolicy()
    time_limit_s: Annotated[float, Meta(ge=0.1, le=31_536_000.0)] | None = None
    # Off by default: a program without a handler would die of it.
    warn: Warn | None = None
    # Seconds between SIGTERM and SIGKILL.
    grace_s: Annotated[float, Meta(ge=0.0, le=3600.0)] = 30.0
    # How long the control plane waits for a silent node before it takes the job away.
    lease_s: Annotated[float, Meta(ge=9.0, le=86_400.0)] = 9.0
    expected_runtime_s: Annotated[float, Meta(ge=0.0, le=31_536_000.0)] | None = None
    labels: dict[LabelKey, LabelValue] = {}
    # Node labels that must be equal.
    selector: dict[LabelKey, LabelValue] = {}
    # "0-999", "1,5,7-20", "0-100:10": one task per index, at most ARRAY_TASKS_MAX.
    array: Annotated[str, Meta(min_length=1, max_length=1000, pattern=r"^[0-9,:-]+$(?!\n)")] | None = None
