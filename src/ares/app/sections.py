"""The base of all sections of the configuration, and those of single parts: gRPC, identity, sandboxes, images."""

from collections.abc import Sequence
from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from ares.model.access import Algorithm, Provider
from ares.model.base import LabelKey, LabelValue, Slug
from ares.model.isolation import Isolation
from ares.model.job import GpuModel
from ares.model.scaling import INSTANCES_MAX, NodeShape, PoolName, ScalingPool

HostPath = Annotated[str, Meta(max_length=4096, pattern=r"^/[^\x00-\x1f\x7f]*$(?!\n)")]
RegistryName = Annotated[
    str, Meta(min_length=1, max_length=300, pattern=r"^(\*|(https?://)?[A-Za-z0-9.:\[\]-]+)$(?!\n)")
]


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One section. An unknown key is an error that names the key."""


# "127.0.0.1:8644", "[::1]:8644"; port 0 takes a free one.
ListenAddress = Annotated[
    str, Meta(max_length=300, pattern=r"^((\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+):[0-9]{1,5})?$(?!\n)")
]


# "https://host" or "http://host:port", without a path.
StoreOrigin = Annotated[str, Meta(max_length=300, pattern=r"^(https?://[A-Za-z0-9.:\[\]-]+/?)?$(?!\n)")]


class GrpcConfig(Section, frozen=True):
    """The public gRPC service. It has the certificate of the HTTP API."""

    # Empty: it is off.
    listen: ListenAddress = ""

    @property
    def address(self) -> tuple[str, int] | None:
        """Host and port; None when it is off."""
        if not self.listen:
            return None
        host, _, port = self.listen.rpartition(":")
        return host.strip("[]"), int(port)


class SecretsConfig(Section, frozen=True):
    # The keys that secrets are sealed with; servers that share a store share them. Empty: in the home directory.
    key_file: str = ""


class SchedulerConfig(Section, frozen=True):
    # Processes that make plans, each for some of the jobs.
    planners: Annotated[int, Meta(ge=1, le=16)] = 1


class ScalingConfig(Section, frozen=True):
    """A pool that grows and shrinks by itself, see docs/guides/autoscaling.md. The fields are those of
    `model.scaling.ScalingPool` and of its shape."""

    cpu_milli: Annotated[int, Meta(ge=100, le=4_096_000)]
    memory_mib: Annotated[int, Meta(ge=64, le=64 * 1024 * 1024)]
    gpus: Annotated[int, Meta(ge=0, le=64)] = 0
    gpu_model: GpuModel | None = None
    gpu_memory_mib: Annotated[int, Meta(ge=0, le=16 * 1024 * 1024)] = 0
    labels: dict[LabelKey, LabelValue] = {}
    provider: Slug = "process"
    nodes_min: Annotated[int, Meta(ge=0, le=INSTANCES_MAX)] = 0
    nodes_max: Annotated[int, Meta(ge=1, le=INSTANCES_MAX)] = 1
    after_s: Annotated[float, Meta(ge=0.0, le=86_400.0)] = 30.0
    idle_s: Annotated[float, Meta(ge=1.0, le=86_400.0)] = 600.0
    price: Annotated[str, Meta(max_length=128)] = ""
    node_hour: Annotated[float, Meta(ge=0.0, le=1e9)] = 0.0
    budget_hour: Annotated[float, Meta(ge=0.0, le=1e12)] = 0.0
    boot_s: Annotated[float, Meta(ge=0.0, le=86_400.0)] = 60.0
    launch_s: Annotated[float, Meta(ge=1.0, le=86_400.0)] = 300.0
    register_s: Annotated[float, Meta(ge=1.0, le=86_400.0)] = 900.0
    backoff_s: Annotated[float, Meta(ge=0.1, le=86_400.0)] = 300.0
    backoff_max_s: Annotated[float, Meta(ge=0.1, le=86_400.0)] = 1800.0


class AutoscaleConfig(Section, frozen=True):
    # By the name of the pool: [autoscale.pools.NAME].
    pools: dict[PoolName, ScalingConfig] = {}
    # A file or an https:// address with prices of machines, which pools name by `price`.
    catalogue: str = ""
    # More of the configuration of agents that the process provider starts, as "key=value".
    agent_settings: tuple[str, ...] = ()

    @property
    def scaling(self) -> tuple[ScalingPool, ...]:
        return tuple(_scaling(name, pool) for name, pool in self.pools.items())


def _scaling(name: str, config: ScalingConfig) -> ScalingPool:
    given = msgspec.structs.asdict(config)
    shape = {field.name: given.pop(field.name) for field in msgspec.structs.fields(NodeShape)}
    return ScalingPool(name=name, shape=NodeShape(**shape), **given)


class StoreConfig(Section, frozen=True):
    # "sqlite:///path", "etcd://host:port,host:port" or "memory:"; empty means SQLite in the home directory.
    url: str = ""


class OidcConfig(Section, frozen=True):
    """An identity provider, see docs/concepts/identity.md. The fields are those of `model.provider.Provider`."""

    issuer: Annotated[str, Meta(min_length=1)]
    audience: Annotated[str, Meta(min_length=1)]
    jwks_url: str
    algorithms: Annotated[tuple[Algorithm, ...], Meta(min_length=1)] = ("RS256", "ES256", "EdDSA")
    client_id: str = ""
    device_url: str = ""
    token_url: str = ""
    authorize_url: str = ""
    redirect_url: str = ""
    client_secret_file: str = ""
    scopes: str = "openid profile email offline_access"
    send: Literal["id_token", "access_token"] = "id_token"
    tenant_claim: str = ""
    create: bool = False
    tenant: Slug | None = None
    role: Literal["viewer", "submitter", "tenant-admin", "auditor", "operator", "admin"] = "viewer"
    role_claim: str = ""
    roles: dict[str, Literal["viewer", "submitter", "tenant-admin", "auditor", "operator", "admin"]] = {}
    name_claim: str = "preferred_username"


def wrong_provider(provider: Provider, providers: Sequence[Provider]) -> str:
    """What is wrong with it, empty when nothing is."""
    for field, text in (
        ("jwks_url", provider.jwks_url),
        ("device_url", provider.device_url),
        ("token_url", provider.token_url),
        ("authorize_url", provider.authorize_url),
        ("redirect_url", provider.redirect_url),
    ):
        url = urlsplit(text)
        local = url.scheme == "http" and url.hostname in ("localhost", "127.0.0.1", "::1")
        if (text or field == "jwks_url") and not (url.scheme == "https" and url.hostname) and not local:
            return f"{field} {text!r} is not an https:// URL"
    if sum(other.issuer == provider.issuer for other in providers) > 1:
        return f"the issuer {provider.issuer!r} is configured twice"
    if provider.create and not (provider.tenant or provider.tenant_claim):
        return "with create = true, say where new users go: tenant or tenant_claim"
    if bool(provider.role_claim) != bool(provider.roles):
        return "role_claim and roles go together"
    if provider.device_url and not (provider.token_url and provider.client_id):
        return "for `ares login`, give client_id, device_url and token_url"
    if provider.authorize_url and not (provider.token_url and provider.client_id):
        return "for logins in a browser, give client_id, authorize_url and token_url"
    if provider.token_url and not (provider.device_url or provider.authorize_url):
        return "token_url goes with device_url, for `ares login`, or with authorize_url, for browsers"
    if (provider.redirect_url or provider.client_secret_file) and not provider.authorize_url:
        return "redirect_url and client_secret_file go with authorize_url"
    return ""


class AuthConfig(Section, frozen=True):
    # By a name that the operator chooses: [auth.oidc.NAME].
    oidc: dict[Slug, OidcConfig] = {}


class SandboxConfig(Section, frozen=True):
    """How jobs are kept apart on this node, see docs/concepts/sandbox.md."""

    # What every job gets at least, as far as the machine allows; a job or its tenant may ask for more.
    level: Isolation = "sandbox"
    # "100000-165535": every tenant's jobs run as a user of its own, out of these. "auto": where the agent is root and
    # can, out of a range that no system gives to people. "none": as the agent's user.
    uids: Annotated[str, Meta(pattern=r"^(auto|none|[0-9]{1,10}-[0-9]{1,10})?$(?!\n)")] = "auto"
    # What sandboxes do not show beyond Ares' own directories, may write to, and have of devices beyond accelerators.
    hidden: tuple[HostPath, ...] = ()
    writable: tuple[HostPath, ...] = ()
    devices: tuple[HostPath, ...] = ()
    # An attempt whose directory holds more is ended; 0: no limit but the disk's.
    workspace_mib: Annotated[int, Meta(ge=0, le=1 << 30)] = 0
    # Output that comes faster is dropped, with a note; 0: no limit but the 64 MiB of an attempt.
    log_kib_per_s: Annotated[int, Meta(ge=0, le=1 << 30)] = 0


class ImagesConfig(Section, frozen=True):
    """Container images that jobs on this node may run in, see docs/guides/environments.md."""

    # Directories below which unpacked images lie that jobs may name with dir:.
    roots: tuple[HostPath, ...] = ()
    # Registries to fetch from: "*" is any on the open internet, by TLS; one within, or without TLS, is named here:
    # "registry.lab:5000", "http://10.0.0.5:5000".
    registries: tuple[RegistryName, ...] = ("*",)
    # What jobs in images may read of this machine, at the same path: drivers' libraries, data.
    mounts: tuple[HostPath, ...] = ()
    # Images that are unpacked here: of all together, and of one.
    cache_mib: Annotated[int, Meta(ge=1, le=1 << 30)] = 20 * 1024
    cache_files: Annotated[int, Meta(ge=1, le=1 << 40)] = 2_000_000
    image_mib_max: Annotated[int, Meta(ge=1, le=1 << 30)] = 20 * 1024
    image_files_max: Annotated[int, Meta(ge=1, le=10_000_000)] = 500_000


class ObjectsConfig(Section, frozen=True):
    """An S3-compatible store for files of jobs, see docs/guides/object-store.md. Empty: they are kept on disk."""

    # Such as "https://s3.eu-west-1.amazonaws.com" or "http://10.0.0.5:8333".
    endpoint: StoreOrigin = ""
    bucket: Annotated[str, Meta(max_length=63, pattern=r"^([a-z0-9][a-z0-9.-]*)?$(?!\n)")] = ""
    region: Annotated[str, Meta(min_length=1, max_length=60, pattern=r"^[a-z0-9-]+$(?!\n)")] = "us-east-1"
    # Stands before every key, so that a bucket may hold other things too.
    prefix: Annotated[str, Meta(max_length=200, pattern=r"^[A-Za-z0-9/_-]*$(?!\n)")] = ""
    # A file of two lines: the access key's id, and its secret.
    credentials_file: str = ""
    # Nodes read datasets, projects and checkpoints from it by signed URLs; those that cannot reach it do not.
    direct: bool = True
    # Where nodes reach it, if that is another address.
    public_endpoint: StoreOrigin = ""


class OtlpConfig(Section, frozen=True):
    """Where traces and metrics are sent, by OTLP over HTTP. See docs/concepts/traces.md."""

    # A collector's address without /v1/traces, such as "http://127.0.0.1:4318". Empty: nothing is sent.
    endpoint: Annotated[str, Meta(max_length=2048, pattern=r"^(https?://[\x21-\x7e]+)?$(?!\n)")] = ""
    # A file of lines "Name: value" that every request carries, such as a token.
    headers_file: str = ""
    # Of jobs that went as they should; those that did not are all sent.
    traces_percent: Annotated[float, Meta(ge=0.0, le=100.0)] = 5.0
    # From its submission to its first start: a job that waited longer went slowly.
    slow_s: Annotated[float, Meta(gt=0.0, le=31_536_000.0)] = 300.0
    # 0: metrics are not sent.
    metrics_every_s: Annotated[float, Meta(ge=0.0, le=86_400.0)] = 30.0


class KubeConfig(Section, frozen=True):
    """A Kubernetes cluster whose nodes are nodes of Ares, see docs/guides/kubernetes.md."""

    # Begins the names of its nodes and marks its pods. Two clusters never have the same, and it never changes.
    code: Annotated[str, Meta(max_length=32, pattern=r"^([a-z0-9]([a-z0-9-]*[a-z0-9])?)?$(?!\n)")] = ""
    # Where the jobs' pods are.
    namespace: Annotated[str, Meta(max_length=63, pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$(?!\n)")] = "ares"
    # A file; empty: what KUBECONFIG says, or the service account of the pod that the agent runs in.
    kubeconfig: str = ""
    # For jobs that name no image. Empty: such jobs are not placed there.
    image: Annotated[str, Meta(max_length=1024, pattern=r"^[\x21-\x7e]*$(?!\n)")] = ""
    pool: str = "default"
    # Ranks of gangs use the network of their nodes, instead of pods' names.
    host_network: bool = False
    # How long an image may take to be had.
    pull_s: Annotated[float, Meta(ge=1.0, le=86_400.0)] = 600.0
    # "ares": the agent binds pods itself. "kube": kube-scheduler binds them, to the node that Ares chose, and gives
    # GPUs by claims where a driver offers devices (DRA).
    bind: Literal["ares", "kube"] = "ares"
    # How long kube-scheduler may take for that; then the job waits again, without a retry.
    schedule_s: Annotated[float, Meta(ge=1.0, le=86_400.0)] = 60.0
    # For pods that keep the nodes which a pool with provider = "kubernetes" bought. It has a program `sleep`.
    hold_image: Annotated[str, Meta(min_length=1, max_length=1024, pattern=r"^[\x21-\x7e]+$(?!\n)")] = "busybox:stable"
    # An image with Ares in it: a helper in each pod asks leave to start, stages files, hands outputs over.
    helper: Annotated[str, Meta(max_length=1024, pattern=r"^[\x21-\x7e]*$(?!\n)")] = ""
    # Where pods reach the agent, as HOST:PORT, and where it listens for them.
    door: Annotated[str, Meta(max_length=300, pattern=r"^([^\s:]+:[0-9]{1,5})?$(?!\n)")] = ""
    door_listen: Annotated[str, Meta(max_length=300, pattern=r"^[^\s:]+:[0-9]{1,5}$(?!\n)")] = "0.0.0.0:8645"


class TransferConfig(Section, frozen=True):
    """Bulk bytes of this node, see docs/concepts/transfer.md."""

    # What of its link tenants share, in Mbit/s, of which they get 9 tenths; 0: no limit.
    link_mbps: Annotated[float, Meta(ge=0.0, le=10_000_000.0)] = 0.0
    # Where other nodes read datasets that this one has in its cache, without encryption; 0: they do not.
    peer_port: Annotated[int, Meta(ge=0, le=65535)] = 0


class PythonConfig(Section, frozen=True):
    """Python environments for the jobs of a node, see docs/guides/environments.md."""

    # Environments that were built here, kept for the next jobs; the longest unused go first.
    cache_mib: Annotated[int, Meta(ge=1, le=1 << 30)] = 20 * 1024
    # Where uv takes packages from, as a URL. Empty: as uv's own settings on this machine say.
    index: Annotated[str, Meta(max_length=2048, pattern=r"^[\x21-\x7e]*$(?!\n)")] = ""
    # Directories in which jobs may use environments that are closed to their user.
    allowed: tuple[HostPath, ...] = ()
