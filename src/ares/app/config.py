"""Configuration: one frozen tree from defaults, a TOML file, the environment and flags, in that order.

`ARES_SECTION__KEY=value` sets `section.key`. Every value knows where it came from.
"""

import os
import re
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import msgspec
from msgspec import Meta

from ares.adapters.store.open import FORMS
from ares.app.sections import (
    AuthConfig,
    AutoscaleConfig,
    GrpcConfig,
    ImagesConfig,
    KubeConfig,
    ObjectsConfig,
    OtlpConfig,
    PythonConfig,
    SandboxConfig,
    SchedulerConfig,
    SecretsConfig,
    Section,
    StoreConfig,
    TransferConfig,
    wrong_provider,
)
from ares.core.access.certificates import LIFE_S
from ares.core.limits import ServerLimits
from ares.model.access import Provider
from ares.model.base import LabelKey, LabelValue, Slug
from ares.model.job import DeviceKind
from ares.model.node import Taint
from ares.model.timing import Timing, broken

_STORE_URL = re.compile(r"memory:|sqlite:///.+|etcd://[^/?]+/?(\?[^#]+)?")
Port = Annotated[int, Meta(ge=0, le=65535)]
# Of a rack, zone, region, dataset or device: shown to people, and compared.
PlaceName = Annotated[str, Meta(max_length=128, pattern=r"^([A-Za-z0-9][A-Za-z0-9._:/@+-]*)?$(?!\n)")]
ThingName = Annotated[PlaceName, Meta(min_length=1)]
# In place of a file: what comes by standard input.
STDIN = "-"


class HttpConfig(Section, frozen=True):
    host: str = "127.0.0.1"
    port: Port = 8642
    tls_cert: str = ""
    tls_key: str = ""
    # Names clients may use in the Host header besides loopback ones.
    allowed_hosts: tuple[str, ...] = ()


class AgentsConfig(Section, frozen=True):
    """Where agents connect to. With TLS both sides prove themselves by certificates of the installation's authority."""

    host: str = "127.0.0.1"
    port: Port = 8643
    # "auto": with TLS wherever it is not this machine alone; "on": always.
    tls: Literal["auto", "on"] = "auto"
    # The authority's certificate, with others that are trusted still after it, and its key (PEM). Empty: made at the
    # first start, in the home directory. Replicas share one authority.
    ca_cert: str = ""
    ca_key: str = ""
    # How long a machine's certificate is good; it is renewed when two thirds are over.
    certificate_s: Annotated[int, Meta(ge=5, le=86_400)] = LIFE_S


class AlertsConfig(Section, frozen=True):
    """How people are told of alerts."""

    # Hosts and networks that tenants' webhooks may lead to though they are not of the open internet.
    allow_private: tuple[str, ...] = ()
    # Empty: no e-mail is sent.
    smtp_host: str = ""
    smtp_port: Port = 587
    smtp_from: str = "ares@localhost"
    smtp_user: str = ""
    # A file that has the password and nothing else.
    smtp_password_file: str = ""
    smtp_starttls: bool = True


class LimitsConfig(ServerLimits, frozen=True, kw_only=True, forbid_unknown_fields=True):
    # How long finished jobs, their ledgers, results, request ids and logs are kept.
    keep_days: Annotated[float, Meta(ge=0.01, le=36_500.0)] = 35.0
    jobs_max: Annotated[int, Meta(ge=1, le=100_000_000)] = 2_000_000
    # The same of one tenant, and those of its jobs that have not ended; of an array every task counts.
    tenant_records_max: Annotated[int, Meta(ge=1, le=100_000_000)] = 1_000_000
    tenant_jobs_max: Annotated[int, Meta(ge=1, le=100_000_000)] = 500_000
    # So many failed attempts of one tenant are repeated in a minute; beyond that its retries pause, with an alert.
    retries_per_minute: Annotated[int, Meta(ge=1, le=10_000_000)] = 600
    # Of the files that one rank of an attempt hands over, and of what it writes to its log.
    output_mib_max: Annotated[int, Meta(ge=1, le=1 << 30)] = 100 * 1024
    # Of the files that a job starts with.
    project_mib_max: Annotated[int, Meta(ge=1, le=1 << 30)] = 20 * 1024
    # Of one version of a dataset.
    dataset_mib_max: Annotated[int, Meta(ge=1, le=1 << 30)] = 1 << 20
    log_mib_max: Annotated[int, Meta(ge=1, le=1 << 20)] = 64
    # What one tenant's logs and outputs may hold, each; never more than half of the disk they are on.
    tenant_log_mib_max: Annotated[int, Meta(ge=1, le=1 << 30)] = 50 * 1024
    tenant_output_mib_max: Annotated[int, Meta(ge=1, le=1 << 30)] = 1 << 20
    tenant_files_max: Annotated[int, Meta(ge=1, le=1 << 40)] = 2_000_000
    # Of every disk, what logs, outputs and decisions never touch; never more than a tenth of it.
    disk_reserve_mib: Annotated[int, Meta(ge=0, le=1 << 30)] = 1024
    disk_reserve_files: Annotated[int, Meta(ge=0, le=1 << 40)] = 10_000


class AuditConfig(Section, frozen=True):
    # What cannot be recorded is not done; false: it is done, and only the log says so.
    required: bool = True
    keep_days: Annotated[float, Meta(ge=1.0, le=36_500.0)] = 400.0
    # A file or a directory, best on another machine's disk, that signed heads are copied to.
    copy_to: str = ""


class NodeConfig(Section, frozen=True):
    """What an agent says about its machine beyond what it finds out itself."""

    name: str = ""
    pool: str = "default"
    labels: dict[LabelKey, LabelValue] = {}
    # Where other nodes reach this one. Empty: the address by which it reaches its control plane.
    address: Annotated[str, Meta(max_length=253, pattern=r"^[A-Za-z0-9.:%_-]*$(?!\n)")] = ""
    rack: PlaceName = ""
    zone: PlaceName = ""
    region: PlaceName = ""
    # Of its network, in Gbit/s; 0 when not known.
    network_gbps: Annotated[float, Meta(ge=0, le=1_000_000)] = 0.0
    # Written "key=value:no-schedule", "key:prefer-not" or "key".
    taints: tuple[Taint, ...] = ()
    # Data that is at hand here, by name.
    datasets: tuple[ThingName, ...] = ()
    # Accelerators that are not GPUs: ids by kind, "tpu-v4" = ["tpu0", "tpu1"].
    devices: dict[DeviceKind, tuple[ThingName, ...]] = {}
    # A topology file of NCCL or RCCL, for machines whose tools do not see the whole of it.
    nccl_topology: str = ""
    # "": real devices only; "true", a count or a preset: mock GPUs; "auto": mock ones when there are none.
    mock_gpu: str = ""
    # Control-plane addresses for agents, "host:port".
    servers: tuple[str, ...] = ("127.0.0.1:8643",)
    # Where to join, as a URL. Empty: by https and port 8642 of the first of `servers`.
    api: str = ""
    # Certificates (PEM) that the control plane's API must chain to when this node joins. Empty: the system's.
    tls_ca: str = ""
    # What runs here has this long to save its work and to end when the agent is told to stop.
    drain_s: Annotated[float, Meta(ge=0.0, le=3600.0)] = 60.0
    # A file whose appearance says that the machine is about to be taken away: as if the agent was told to stop.
    notice_file: str = ""
    # Files of projects that jobs here started with, kept for the next ones; the longest unused go first.
    cache_mib: Annotated[int, Meta(ge=1, le=1 << 30)] = 20 * 1024
    # Files of datasets that jobs here have read, kept for the next ones; the longest unused go first.
    dataset_cache_mib: Annotated[int, Meta(ge=1, le=1 << 30)] = 100 * 1024
    # Of the directory that a tenant's jobs keep between them, $ARES_CACHE_DIR.
    tenant_cache_mib: Annotated[int, Meta(ge=1, le=1 << 30)] = 20 * 1024
    tenant_cache_files: Annotated[int, Meta(ge=1, le=1 << 40)] = 1_000_000
    # Jobs are told where on this machine to send what they record with an OpenTelemetry SDK; it joins their trace.
    spans: bool = False
    python: PythonConfig = PythonConfig()
    sandbox: SandboxConfig = SandboxConfig()
    images: ImagesConfig = ImagesConfig()
    transfer: TransferConfig = TransferConfig()


class Config(Section, frozen=True):
    home: str
    cluster: str = "local"
    replica: str = ""
    # Where logs and outputs are kept; several replicas share both directories.
    logs: str = ""
    outputs: str = ""
    # Of the first administrator.
    tenant: Slug = "default"
    http: HttpConfig = HttpConfig()
    grpc: GrpcConfig = GrpcConfig()
    agents: AgentsConfig = AgentsConfig()
    store: StoreConfig = StoreConfig()
    limits: LimitsConfig = LimitsConfig()
    alerts: AlertsConfig = AlertsConfig()
    scheduler: SchedulerConfig = SchedulerConfig()
    audit: AuditConfig = AuditConfig()
    timing: Timing = Timing()
    node: NodeConfig = NodeConfig()
    auth: AuthConfig = AuthConfig()
    secrets: SecretsConfig = SecretsConfig()
    autoscale: AutoscaleConfig = AutoscaleConfig()
    objects: ObjectsConfig = ObjectsConfig()
    kube: KubeConfig = KubeConfig()
    otlp: OtlpConfig = OtlpConfig()

    @property
    def own_paths(self) -> tuple[Path, ...]:
        """What a server and agents of this machine keep, with all their keys."""
        keys = (
            self.http.tls_key, self.agents.ca_key, self.secrets.key_file, self.alerts.smtp_password_file,
            self.audit.copy_to, self.objects.credentials_file, self.otlp.headers_file,
        )  # fmt: skip
        store = self.store_url.removeprefix("sqlite://") if self.store_url.startswith("sqlite:") else ""
        stored = [f"{store}{end}" for end in ("", "-wal", "-shm")] if store else []
        named = (Path(path).absolute() for path in (*keys, *stored) if path)
        return (self.home_path.absolute(), self.logs_path.absolute(), self.outputs_path.absolute(), *named)

    @property
    def home_path(self) -> Path:
        return Path(self.home)

    @property
    def providers(self) -> tuple[Provider, ...]:
        named = self.auth.oidc.items()
        return tuple(Provider(name=name, **msgspec.structs.asdict(provider)) for name, provider in named)

    @property
    def store_url(self) -> str:
        return self.store.url or f"sqlite://{self.home_path / 'store.db'}"

    @property
    def logs_path(self) -> Path:
        return Path(self.logs) if self.logs else self.home_path / "logs"

    @property
    def secrets_path(self) -> Path:
        return Path(self.secrets.key_file) if self.secrets.key_file else self.home_path / "keys" / "secrets.key"

    @property
    def outputs_path(self) -> Path:
        return Path(self.outputs) if self.outputs else self.home_path / "outputs"


class ConfigError(Exception):
    """The configuration is wrong; the message names the value and where it came from."""

    # As in sysexits.h. A supervisor reads it as: starting again will not help.
    exit_code = 78

    def __init__(self, what: str, fix: str = "") -> None:
        super().__init__(what)
        self.fix = fix


def default_home(env: Mapping[str, str]) -> Path:
    return Path(env.get("ARES_HOME") or Path(env.get("HOME") or "~").expanduser() / ".ares")


def load(file: Path | None, flags: Mapping[str, Any], env: Mapping[str, str] = os.environ) -> Config:
    """`flags` are dotted keys such as "http.port"; None values are left out."""
    home = default_home(env)
    tree: dict[str, Any] = {"home": str(home)}
    origin: dict[str, str] = {}
    chosen = file if file is not None else home / "ares.toml"
    if file is not None or chosen.exists():
        _overlay(tree, origin, _flatten(_read(chosen)), str(chosen))
    _overlay(tree, origin, _from_env(env), "environment")
    _overlay(tree, origin, {key: value for key, value in flags.items() if value is not None}, "command line")
    return _convert(tree, origin)


def _read(path: Path) -> dict[str, Any]:
    try:
        text = sys.stdin.read() if str(path) == STDIN else path.read_text()
        # No TOML begins like this. Our own processes hand it on as JSON.
        return msgspec.json.decode(text, type=dict[str, Any]) if text.startswith("{") else tomllib.loads(text)
    except (OSError, tomllib.TOMLDecodeError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error


def _flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, dict) and f"{prefix}{key}" not in MAPS:
            flat.update(_flatten(value, f"{prefix}{key}."))  # pyright: ignore[reportUnknownArgumentType]
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def _from_env(env: Mapping[str, str]) -> dict[str, Any]:
    found = {
        name.removeprefix("ARES_").lower().replace("__", "."): value
        for name, value in env.items()
        if name.startswith("ARES_") and "__" in name
    }
    if env.get("ARES_MOCK_GPU"):
        found["node.mock_gpu"] = env["ARES_MOCK_GPU"]
    return found


def _overlay(tree: dict[str, Any], origin: dict[str, str], flat: Mapping[str, Any], source: str) -> None:
    for dotted, value in flat.items():
        branch = tree
        *parents, leaf = dotted.split(".")
        for parent in parents:
            below: object = branch.setdefault(parent, {})
            if not isinstance(below, dict):
                raise ConfigError(f"{dotted} from {source}: {parent} is a value, and has no {leaf}")
            branch = cast("dict[str, Any]", below)
        branch[leaf] = _from_text(dotted, value, source) if isinstance(value, str) else value
        origin[dotted] = source


# What text means for values that are not plain: items are separated by commas, those of one device kind by spaces.
_SANDBOX_LISTS = ("node.sandbox.hidden", "node.sandbox.writable", "node.sandbox.devices", "node.python.allowed")
_IMAGE_LISTS = ("node.images.roots", "node.images.registries", "node.images.mounts")
_LISTS = frozenset(
    {
        "http.allowed_hosts",
        "alerts.allow_private",
        "node.servers",
        "node.taints",
        "node.datasets",
        "autoscale.agent_settings",
        *_SANDBOX_LISTS,
        *_IMAGE_LISTS,
    }
)
MAPS = frozenset({"node.labels", "node.devices", "auth.oidc", "autoscale.pools"})


def _from_text(dotted: str, text: str, source: str) -> Any:
    items = [item.strip() for item in text.split(",") if item.strip()]
    if dotted in _LISTS or (dotted.startswith("auth.oidc.") and dotted.endswith(".algorithms")):
        return items
    if dotted not in MAPS:
        return text
    pairs = {key.strip(): value.strip() for key, equals, value in (item.partition("=") for item in items) if equals}
    if len(pairs) < len(items):
        raise ConfigError(f"{dotted} from {source}: {text!r} is not key=value,key=value with each key once")
    return pairs if dotted == "node.labels" else {kind: ids.split() for kind, ids in pairs.items()}


def _taint(text: Any, source: str) -> dict[str, str]:
    """ "key=value:effect", of which value and effect may be left out."""
    match = _TAINT.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ConfigError(
            f"node.taints from {source}: {text!r} is not a taint",
            "write key=value:no-schedule or key=value:prefer-not; value and effect may be left out",
        )
    key, value, effect = match.groups()
    return {"key": key, "value": value or "", "effect": effect or "no-schedule"}


_TAINT = re.compile(r"([^=:]+)(?:=([^:]*))?(?::(no-schedule|prefer-not))?")


def _convert(tree: dict[str, Any], origin: Mapping[str, str]) -> Config:
    node = tree.get("node")
    if isinstance(node, dict) and isinstance(written := node.get("taints"), list):  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        source = origin.get("node.taints", "defaults")
        node["taints"] = [_taint(text, source) for text in written]  # pyright: ignore[reportUnknownVariableType]
    try:
        config = msgspec.convert(tree, Config, strict=False)
    except msgspec.ValidationError as error:
        sources = sorted(set(origin.values())) or ["defaults"]
        raise ConfigError(f"configuration from {', '.join(sources)}: {error}") from error
    if not _STORE_URL.fullmatch(config.store_url):
        raise ConfigError(
            f"store.url from {origin.get('store.url')}: {config.store_url} names no store", f"use {FORMS}"
        )
    if mistake := broken(config.timing):
        raise ConfigError(f"timing from {_origins(origin, 'timing.')}: {mistake}", "see docs/concepts/operations.md")
    for provider in config.providers:
        if mistake := wrong_provider(provider, config.providers):
            raise ConfigError(f"auth.oidc.{provider.name}: {mistake}", "see docs/concepts/identity.md")
    for kind, ids in config.node.devices.items():
        if len(set(ids)) < len(ids):
            raise ConfigError(
                f"node.devices from {origin.get('node.devices')}: {kind} names a device twice", "give each id once"
            )
    return config


def _origins(origin: Mapping[str, str], prefix: str) -> str:
    return ", ".join(sorted({source for key, source in origin.items() if key.startswith(prefix)})) or "defaults"
