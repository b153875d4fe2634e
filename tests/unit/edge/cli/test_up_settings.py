"""Every value of the configuration, given in any way, is what the processes of `ares up` go by."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args, get_origin

import msgspec
import pytest

from ares.app import up
from ares.app.config import Config, ConfigError, load
from ares.app.sections import OidcConfig, ScalingConfig
from tests.tidy.source import SRC, python_files

Ares = Callable[..., Any]
OIDC = {"issuer": "https://i.example", "audience": "a", "jwks_url": "https://i.example/keys"}
POOL = {"cpu_milli": 2000, "memory_mib": 512}
# Where another value must be of a form, or fit to others: as written in --set, and as in a file.
GIVEN: dict[str, tuple[str, object]] = {
    "home": ("{tmp}", "{tmp}"),
    "tenant": ("other", "other"),
    "grpc.listen": ("127.0.0.1:8651", "127.0.0.1:8651"),
    "store.url": ("memory:", "memory:"),
    "http.allowed_hosts": ("a.example,b.example", ["a.example", "b.example"]),
    "alerts.allow_private": ("10.0.0.0/8", ["10.0.0.0/8"]),
    "node.labels": ("a=b,c=d", {"a": "b", "c": "d"}),
    "node.taints": ("old=1:prefer-not,x", ["old=1:prefer-not", "x"]),
    "node.datasets": ("imagenet,s3://b/c", ["imagenet", "s3://b/c"]),
    "node.devices": ("tpu=t0 t1", {"tpu": ["t0", "t1"]}),
    "node.servers": ("10.0.0.1:1,10.0.0.2:2", ["10.0.0.1:1", "10.0.0.2:2"]),
    "node.sandbox.uids": ("100000-165535", "100000-165535"),
    "node.sandbox.hidden": ("/a,/b", ["/a", "/b"]),
    "node.python.allowed": ("/opt/envs,/c", ["/opt/envs", "/c"]),
    "node.sandbox.writable": ("/a", ["/a"]),
    "node.sandbox.devices": ("/dev/a", ["/dev/a"]),
    "node.images.roots": ("/a,/b", ["/a", "/b"]),
    "node.images.registries": ("a.example", ["a.example"]),
    "node.images.mounts": ("/a", ["/a"]),
    "node.sandbox.level": ("sandbox", "sandbox"),
    "agents.tls": ("on", "on"),
    "kube.door": ("10.0.0.1:7443", "10.0.0.1:7443"),
    "kube.door_listen": ("10.0.0.1:7443", "10.0.0.1:7443"),
    "objects.endpoint": ("https://s3.example", "https://s3.example"),
    "objects.public_endpoint": ("https://files.example", "https://files.example"),
    "otlp.endpoint": ("http://127.0.0.1:4318", "http://127.0.0.1:4318"),
    "timing.renew_every_s": ("1.5", 1.5),
    "timing.self_fence_s": ("6.5", 6.5),
    "timing.kill_s": ("0.5", 0.5),
    "timing.dead_after_s": ("12", 12.0),
    "timing.scan_every_s": ("0.25", 0.25),
    "timing.leader_ttl_s": ("8", 8.0),
    "timing.leader_renew_every_s": ("1", 1.0),
    **{f"auth.oidc.x.{name}": (value, value) for name, value in OIDC.items()},
    "auth.oidc.x.algorithms": ("ES256", ["ES256"]),
    **{f"autoscale.pools.x.{name}": (str(value), value) for name, value in POOL.items()},
    "autoscale.agent_settings": ("node.pool=b,log.level=debug", ["node.pool=b", "log.level=debug"]),
}
# Only in a file: refused on the command line, and said so.
IN_A_FILE = {"auth.oidc.x.roles": {"ops": "operator"}, "autoscale.pools.x.labels": {"ops": "operator"}}
BROWSER = {
    "auth.oidc.x.authorize_url": "https://i.example/a", "auth.oidc.x.token_url": "https://i.example/t",
    "auth.oidc.x.client_id": "c",
}  # fmt: skip
# Those that have to come with others.
TOGETHER = {
    "auth.oidc.x.roles": {"auth.oidc.x.role_claim": "groups"},
    "auth.oidc.x.role_claim": {"auth.oidc.x.roles": {"ops": "operator"}},
    "auth.oidc.x.create": {"auth.oidc.x.tenant": "acme"},
    "auth.oidc.x.device_url": {"auth.oidc.x.token_url": "https://i.example/t", "auth.oidc.x.client_id": "c"},
    "auth.oidc.x.authorize_url": BROWSER,
    "auth.oidc.x.redirect_url": BROWSER,
    "auth.oidc.x.client_secret_file": BROWSER,
    "auth.oidc.x.token_url": {"auth.oidc.x.device_url": "https://i.example/d", "auth.oidc.x.client_id": "c"},
}
URLS = ("jwks_url", "device_url", "token_url", "authorize_url", "redirect_url")


def leaves(struct: type[msgspec.Struct], prefix: str = "") -> Iterator[tuple[str, Any, Any]]:
    for field in msgspec.structs.fields(struct):
        key = f"{prefix}{field.encode_name}"
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            yield from leaves(field.type, f"{key}.")
        elif key == "auth.oidc":
            yield from leaves(OidcConfig, "auth.oidc.x.")
        elif key == "autoscale.pools":
            yield from leaves(ScalingConfig, "autoscale.pools.x.")
        else:
            yield key, field.type, field.default


KEYS = {key: (kind, default) for key, kind, default in leaves(Config)}


def another(key: str, tmp: Path) -> tuple[str | None, object]:
    """A value that is not the default: as text, None where text will not do, and as a file has it."""
    if key in IN_A_FILE:
        return None, IN_A_FILE[key]
    if key in GIVEN:
        text, value = GIVEN[key]
        return text.replace("{tmp}", str(tmp)), str(tmp) if value == "{tmp}" else value
    kind, default = KEYS[key]
    if key.rpartition(".")[2] in URLS:
        return "https://i.example/other", "https://i.example/other"
    if get_origin(kind) is not None and isinstance(default, str):
        choices = [one for one in get_args(kind) if isinstance(one, str) and one != default]
        return (choices[0], choices[0]) if choices else ("x", "x")
    if isinstance(default, bool):
        return str(not default).lower(), not default
    if isinstance(default, int):
        less = default - 1 if default > 1 else default + 1
        return str(less), less
    if isinstance(default, float):
        part = default * 0.9 or 1.0
        return repr(part), part
    return "x", "x"


def value_at(config: Config, key: str) -> object:
    value: Any = json.loads(up.config_text(config))
    for name in key.split("."):
        value = value[name]
    return value


def nested(flat: dict[str, object]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for key, value in flat.items():
        branch = tree
        *parents, leaf = key.split(".")
        for parent in parents:
            branch = branch.setdefault(parent, {})
        branch[leaf] = value
    return tree


@pytest.fixture
def supervised(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Config]:
    """What `ares up` would supervise by."""
    found: list[Config] = []
    monkeypatch.setenv("ARES_HOME", str(tmp_path / "home"))
    # Flags go before it, also in the children.
    monkeypatch.setenv("ARES_HTTP__PORT", "999")
    monkeypatch.setattr("ares.app.up.supervise", lambda config: found.append(config) or 0)
    return found


def child(config: Config) -> Config:
    """What a process started by the supervisor reads: really through another process, its environment and its stdin."""
    script = (
        "import sys; from pathlib import Path; from ares.app import up; from ares.app.config import load;"
        "sys.stdout.buffer.write(up.config_text(load(Path('-'), {})))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script],
        input=up.config_text(config),
        env=up.environment(config),
        capture_output=True,
        check=True,
        timeout=60,
    )
    (Path(config.home) / "child.json").write_bytes(ran.stdout)
    return load(Path(config.home) / "child.json", {}, {"ARES_HOME": config.home})


def test_every_key_by_flag_and_by_file_reaches_the_supervisor(
    supervised: list[Config], ares: Ares, tmp_path: Path
) -> None:
    for key in KEYS:
        text, value = another(key, tmp_path)
        beside = {
            **({f"auth.oidc.x.{n}": v for n, v in OIDC.items()} if "oidc" in key else {}),
            **({f"autoscale.pools.x.{n}": v for n, v in POOL.items()} if "autoscale.pools" in key else {}),
            **TOGETHER.get(key, {}),
        }
        file = tmp_path / "beside.json"
        file.write_text(json.dumps(nested(beside)))
        done = ares("up", "--foreground", "--config", str(file), "--set", f"{key}={text or 'ops=operator'}")
        if text is None:
            assert done.code == 78, key
        else:
            assert done.code == 0, (key, done.err)
            assert value_at(supervised.pop(), key) == _as_read(value), key
        file.write_text(json.dumps(nested({**beside, key: value})))
        done = ares("up", "--foreground", "--config", str(file), "--set", "http.port=5")
        assert done.code == 0, (key, done.err)
        assert value_at(supervised.pop(), key) == (5 if key == "http.port" else _as_read(value)), key


def _as_read(value: object) -> object:
    """Taints have a value and an effect, also where they were left out."""
    return ["old=1:prefer-not", "x=:no-schedule"] if value == GIVEN["node.taints"][1] else value


def test_every_key_reaches_the_children(
    supervised: list[Config], ares: Ares, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = {key: another(key, tmp_path)[1] for key in KEYS}
    (tmp_path / "all.json").write_text(json.dumps(nested(values)))
    assert ares("up", "--foreground", "--config", str(tmp_path / "all.json"), "--set", "http.port=8650").code == 0
    (config,) = supervised
    monkeypatch.setenv("ARES_MOCK_GPU", "7")
    assert child(up.settled(config)) == up.settled(config)
    for key, value in values.items():
        assert value_at(up.settled(config), key) == (8650 if key == "http.port" else _as_read(value)), key


def test_what_is_left_out_follows_from_the_rest(tmp_path: Path) -> None:
    def settled(**flags: Any) -> Config:
        return up.settled(load(None, {key.replace("__", "."): value for key, value in flags.items()}, {"HOME": "/h"}))

    plain = settled()
    assert (plain.node.name, plain.node.mock_gpu, plain.node.servers) == ("local", "auto", ("127.0.0.1:8643",))
    assert settled(agents__host="::1", agents__port=5).node.servers == ("[::1]:5",)
    wide = settled(agents__host="0.0.0.0")
    assert (wide.node.servers, wide.agents.tls) == (("127.0.0.1:8643",), "on")
    assert settled(node__servers=["10.0.0.1:5"], agents__port=0).node.servers == ("10.0.0.1:5",)
    with pytest.raises(ConfigError, match=r"agents.port is 0"):
        settled(agents__port=0)


@pytest.mark.parametrize(
    "wrong", ["nonsense=1", "http.portt=1", "http=1", "http.port.x=1", "limits.jobs_max=many", "audit.required=maybe"]
)
def test_what_cannot_be_used_is_refused(ares: Ares, supervised: list[Config], wrong: str) -> None:
    done = ares("up", "--foreground", "--set", "http.port=5", "--set", wrong)
    assert (done.code, supervised) == (78, [])
    assert done.err.startswith("error: ")


def test_a_platform_that_runs_with_other_settings_says_which(
    ares: Ares, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    running = load(None, {"http.port": 9000, "limits.jobs_max": 5}, {"ARES_HOME": str(home)})
    up.leave_config(up.settled(running))
    monkeypatch.setattr("ares.app.up.is_up", lambda home: True)
    done = ares("up", "--home", str(home), "--set", "limits.jobs_max=6", "--port", "9000")
    assert (done.code, done.err.splitlines()[0]) == (
        1, "error: already running with other settings: limits.jobs_max is 5, not 6",
    )  # fmt: skip
    (tmp_path / "c.toml").write_text("[limits]\njobs_max = 5\n")
    done = ares("up", "--home", str(home), "--config", str(tmp_path / "c.toml"))
    assert "http.port is 9000, not 8642" in done.err
    # Nothing given is nothing wished otherwise.
    up.require_as_given(load(None, {}, {"ARES_HOME": str(home)}), frozenset())


def test_every_key_is_read_by_something() -> None:
    """A key that nothing reads could not be used, however well it is carried."""
    texts = [path.read_text() for path in python_files(SRC) if path.name not in ("config.py", "up.py")]
    structs = "\n".join(texts)
    unread = [key for key in KEYS if f".{key.rpartition('.')[2]}" not in structs]
    assert unread == []
