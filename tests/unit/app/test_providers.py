"""Providers of machines: those that pools name, and what is wrong with them said at the start."""

import asyncio
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Awaitable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ares.adapters.kubernetes.machines import KubeMachines
from ares.adapters.machines.apart import ApartMachines
from ares.adapters.machines.process import ProcessMachines
from ares.app.config import Config, ConfigError, load
from ares.app.providers import providers_of, scaling_of
from ares.core.autoscale.purchase import virtual
from ares.model.scaling import NodeShape
from ares.ports.machines import (
    ListedMachine,
    MachineProvider,
    MachineWarning,
    NotProvided,
    ProviderUnknown,
    WantedMachine,
    WarningProvider,
)

ROOT = Path(__file__).parents[3]
WANT = WantedMachine("tok1", "gold", "gold-tok1", NodeShape(cpu_milli=2000, memory_mib=512), ("h:1",), "join-me")


def config(tmp_path: Path, cluster: str = "lab", **pool: Any) -> Config:
    file = tmp_path / "ares.toml"
    lines = "\n".join(f"{key} = {json.dumps(value)}" for key, value in pool.items())
    file.write_text(f"[autoscale.pools.gold]\n{lines}\n")
    return load(file, {"home": str(tmp_path), "cluster": cluster}, {})


def test_a_pool_is_read_and_its_provider_found(tmp_path: Path) -> None:
    made = config(tmp_path, cpu_milli=2000, memory_mib=512, nodes_max=4, idle_s=60)
    (pool,) = made.autoscale.scaling
    assert (pool.name, pool.shape.cpu_milli, pool.nodes_max, pool.idle_s, pool.after_s) == ("gold", 2000, 4, 60.0, 30.0)
    assert isinstance(providers_of(made)["process"], ProcessMachines)
    assert providers_of(load(None, {"home": str(tmp_path / "none")}, {})) == {}


@pytest.mark.parametrize("wrong", [{"cpu_milli": 1}, {"nodes_max": 0}, {"colour": "red"}, {"memory_mib": "much"}])
def test_a_value_out_of_bounds_is_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        config(tmp_path, **{"cpu_milli": 2000, "memory_mib": 512, **wrong})


def test_a_provider_that_is_not_there_stops_the_start(tmp_path: Path) -> None:
    made = config(tmp_path, cpu_milli=2000, memory_mib=512, provider="moon")
    with pytest.raises(ConfigError, match="no provider 'moon'"):
        providers_of(made, lambda group: [])
    broken = SimpleNamespace(name="moon", load=lambda: 1 / 0)
    with pytest.raises(ConfigError, match="ZeroDivisionError"):
        providers_of(made, lambda group: [broken])


def test_a_cloud_is_not_shared_by_clusters_of_the_default_name(tmp_path: Path) -> None:
    """Each would delete the other's machines, as strangers."""
    moon = SimpleNamespace(name="moon", load=lambda: lambda cluster: cluster)
    with pytest.raises(ConfigError, match="still 'local'"):
        providers_of(config(tmp_path, "local", cpu_milli=2000, memory_mib=512, provider="moon"), lambda group: [moon])
    assert load(None, {"home": str(tmp_path)}, {}).cluster == "local"
    named = config(tmp_path, "lab", cpu_milli=2000, memory_mib=512, provider="moon")
    assert isinstance(providers_of(named, lambda group: [moon])["moon"], ApartMachines)


class Blocking:
    """Blocks inside `async def`, until it is let go."""

    def __init__(self) -> None:
        self.go_on = threading.Event()

    async def create(self, want: WantedMachine) -> str | NotProvided:
        return NotProvided(threading.current_thread().name)

    async def machines(self) -> list[ListedMachine]:
        assert self.go_on.wait(60), "the loop that asks was blocked"
        return []

    async def delete(self, ids: Sequence[str]) -> None:
        await asyncio.Event().wait()


def test_a_provider_that_blocks_or_hangs_stops_neither_the_loop_nor_later_calls() -> None:
    blocking = Blocking()
    provider = ApartMachines("moon", blocking)

    async def run() -> None:
        listed = asyncio.create_task(provider.machines())
        await asyncio.sleep(0)
        with pytest.raises(ProviderUnknown, match="'moon' has not come back"):
            await provider.create(WANT)
        blocking.go_on.set()
        assert await listed == []
        # One that waits for ever is ended when it is given up, and the provider is asked again.
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await provider.delete(["tok1"])
        while (made := await _or_none(provider.create(WANT))) is None:
            await asyncio.sleep(0.01)
        assert made == NotProvided("provider-moon")

    asyncio.run(run())


def test_a_plugin_that_warns_of_its_machines_is_heard_through_its_thread() -> None:
    class Warns(ProcessMachines):
        async def warnings(self) -> Sequence[MachineWarning]:
            return [MachineWarning("tok1", "spot")]

    class Silent:
        async def machines(self) -> Sequence[ListedMachine]:
            return []

    async def run() -> None:
        warns: Any = ApartMachines("moon", Warns(Path("nowhere")))
        silent: Any = ApartMachines("sun", cast("MachineProvider", Silent()))
        assert isinstance(warns, WarningProvider)
        assert await warns.warnings() == [MachineWarning("tok1", "spot")]
        assert await silent.warnings() == ()

    asyncio.run(run())


async def _or_none(answer: Awaitable[str | NotProvided]) -> str | NotProvided | None:
    try:
        return await answer
    except ProviderUnknown:
        return None


def test_a_process_with_a_strange_environment_hides_no_machine(tmp_path: Path) -> None:
    """It may be a tenant's: its word for its machine need not be text."""
    environment = {**os.environb, b"ARES_MACHINE_ID": b"\xff\xfe"}
    agent = subprocess.Popen(
        [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()", "agent"], env=environment,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    with agent:
        assert agent.stdout is not None
        assert agent.stdout.readline() == b"\n"
        assert asyncio.run(ProcessMachines(tmp_path / "machines").machines()) == ()


# ---- the example of a cloud


class Cloud(BaseHTTPRequestHandler):
    machines: dict[str, dict[str, Any]] = {}
    refuses = 0

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.refuses:
            self._answer(self.refuses, {"message": "no capacity"})
            return
        handle = f"i-{body['clientToken']}"
        self.machines.setdefault(
            handle, {"id": handle, "tags": body["tags"], "createdAt": 5.0, "data": body["userData"]}
        )
        self._answer(201, self.machines[handle])

    def do_GET(self) -> None:
        self._answer(200, {"instances": list(self.machines.values())})

    def do_DELETE(self) -> None:
        self.machines.pop(self.path.rpartition("/")[2], None)
        self._answer(204, {})

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        data = b"" if status == 204 else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *said: object) -> None:
        pass


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Cloud]]:
    class Fresh(Cloud):
        machines: dict[str, dict[str, Any]] = {}

    server = HTTPServer(("127.0.0.1", 0), Fresh)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("EXAMPLE_CLOUD_URL", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.syspath_prepend(str(ROOT / "plugins" / "example" / "src"))
    yield Fresh
    server.shutdown()
    thread.join()
    server.server_close()
    sys.modules.pop("ares_example.cloud", None)


def test_the_example_of_a_cloud_keeps_the_contract(cloud: type[Cloud]) -> None:
    from ares_example.cloud import ExampleCloud  # pyright: ignore[reportMissingImports]

    provider: Any = ExampleCloud(cluster="lab")

    async def use() -> None:
        assert await provider.create(WANT) == "i-tok1"
        # The same token, the same machine.
        assert await provider.create(WANT) == "i-tok1"
        (listed,) = await provider.machines()
        assert (listed.id, listed.handle, listed.at) == ("tok1", "i-tok1", 5.0)
        assert "join-me" in cloud.machines["i-tok1"]["data"]
        await provider.delete(["tok1", "never-was"])
        assert await provider.machines() == []
        cloud.refuses = 409
        assert await provider.create(WANT) == NotProvided("no capacity")
        cloud.refuses = 503
        with pytest.raises(ProviderUnknown):
            await provider.create(WANT)

    asyncio.run(use())


def test_the_guides_kubernetes_pool_as_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its nodes are known to be pods' before there is one: a job that names an image is bought for."""
    guide = (ROOT / "docs/guides/autoscaling.md").read_text()
    (_, toml) = re.findall(r"^```toml\n(.*?)^```", guide, re.M | re.S)
    file = tmp_path / "ares.toml"
    file.write_text(toml)
    cluster = {"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    kubeconfig = {
        "apiVersion": "v1", "kind": "Config", "current-context": "c", "clusters": [cluster], "contexts": [context],
        "users": [{"name": "u", "user": {}}],
    }  # fmt: skip
    (tmp_path / "autoscaler.kubeconfig").write_text(json.dumps(kubeconfig))
    monkeypatch.chdir(tmp_path)
    made = load(file, {"home": str(tmp_path)}, {})
    assert isinstance(providers_of(made)["kubernetes"], KubeMachines)
    (pool,) = scaling_of(made)
    assert {"pods", "images", "pod-default-image"} <= set(virtual("n", pool).info.sandbox)
    assert "pod-files" not in pool.features


def test_a_kubernetes_pool_says_what_it_lacks(tmp_path: Path) -> None:
    wanted: dict[str, Any] = {"cpu_milli": 2000, "memory_mib": 512, "provider": "kubernetes"}
    with pytest.raises(ConfigError, match="still 'local'"):
        providers_of(config(tmp_path, "local", **wanted))
    with pytest.raises(ConfigError, match="no code"):
        providers_of(config(tmp_path, **wanted))
