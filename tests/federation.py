"""Federations of real processes: a global plane and clusters, each a platform of its own, and links that can be cut."""

import contextlib
import socket
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

from ares.edge.client.calls import operator
from tests.kube_platform import KubePlatform
from tests.kubernetes import StandInCluster
from tests.platform import Platform, eventually
from tests.ports import free_ports


class Wire:
    """A connection from one port to another that the test can cut, freeze and slow down, and mend."""

    def __init__(self, to: int) -> None:
        (self.port,) = free_ports(1)
        self._to = to
        self._is_cut = False
        self._flows = threading.Event()
        self._flows.set()
        self._delay_s = 0.0
        self._ends: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind(("127.0.0.1", self.port))
        self._listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            if self._is_cut:
                near.close()
                continue
            try:
                far = socket.create_connection(("127.0.0.1", self._to), timeout=5)
            except OSError:
                near.close()
                continue
            far.settimeout(None)
            with self._lock:
                self._ends |= {near, far}
            for here, there in ((near, far), (far, near)):
                threading.Thread(target=self._carry, args=(here, there), daemon=True).start()

    def _carry(self, here: socket.socket, there: socket.socket) -> None:
        try:
            while data := here.recv(65536):
                time.sleep(self._delay_s)
                self._flows.wait()
                there.sendall(data)
        except OSError:
            pass
        for end in (here, there):
            end.close()

    def cut(self) -> None:
        """What is connected breaks, and nothing connects until it is mended."""
        self._is_cut = True
        with self._lock:
            ends, self._ends = self._ends, set()
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def freeze(self) -> None:
        """What is connected stays so, and nothing passes: neither side is told."""
        self._flows.clear()

    def slow(self, delay_s: float) -> None:
        """Everything comes later by this, in its order."""
        self._delay_s = delay_s

    def mend(self) -> None:
        self._is_cut, self._delay_s = False, 0.0
        self._flows.set()

    def close(self) -> None:
        self.cut()
        self._flows.set()
        self._listener.close()


class Wires:
    """One cluster's wires to all replicas of the global plane: a fault has all of them."""

    def __init__(self, ports: Iterable[int]) -> None:
        self.each = tuple(Wire(port) for port in ports)

    def cut(self) -> None:
        for wire in self.each:
            wire.cut()

    def freeze(self) -> None:
        for wire in self.each:
            wire.freeze()

    def slow(self, delay_s: float) -> None:
        for wire in self.each:
            wire.slow(delay_s)

    def mend(self) -> None:
        for wire in self.each:
            wire.mend()

    def close(self) -> None:
        for wire in self.each:
            wire.close()


class Federation:
    """A global plane, and clusters by name, each with its own directory, store, server, agent and wires. With several
    replicas the global plane has an etcd."""

    def __init__(self, directory: Path, replicas: int = 1) -> None:
        self.plane = Platform(directory / "global", "etcd" if replicas > 1 else "sqlite", warm=True)
        self._directory, self._replicas = directory, replicas
        self.clusters: dict[str, Platform] = {}
        self.wires: dict[str, Wires] = {}
        self._kubes = contextlib.ExitStack()

    def __enter__(self) -> Self:
        self._directory.mkdir(parents=True, exist_ok=True)
        self.plane.__enter__()
        for number in range(self._replicas):
            self.plane.server(number)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for platform in (*self.clusters.values(), self.plane):
            platform.__exit__(kind, error, at)
        for wires in self.wires.values():
            wires.close()
        self._kubes.close()

    def kube(self, name: str) -> KubePlatform:
        """A cluster whose nodes are those of a Kubernetes cluster, joined."""
        cluster = self._kubes.enter_context(StandInCluster(self._directory / f"{name}-kube"))
        platform = self.clusters[name] = Platform(self._directory / name, warm=True)
        platform.__enter__()
        made = KubePlatform(platform, cluster)
        self.join(name, platform)
        return made

    def cluster(self, name: str, *, gpus: int = 2, agent: bool = True) -> Platform:
        """Starts a cluster and makes it join; returns when the global plane hears of its nodes."""
        platform = self.bare(name, gpus=gpus, agent=agent)
        self.join(name, platform)
        return platform

    def join(self, name: str, platform: Platform) -> None:
        if name in self.wires:
            self.wires[name].close()
        wires = self.wires[name] = Wires(
            int(server.agents.rpartition(":")[2]) for server in self.plane.servers.values()
        )
        links = [part for wire in wires.each for part in ("--link", f"127.0.0.1:{wire.port}")]
        token = self.plane.client().create_join_token(cluster=name).token
        done = platform.cli(
            "cluster", "join", self.plane.servers[0].url, "--name", name, "--token", token,
            *links, "--region", f"{name}-region",
        )  # fmt: skip
        assert done.code == 0, done
        eventually(lambda: self.is_heard(name) or None, f"a report of cluster {name}")

    def bare(self, name: str, *, gpus: int = 2, agent: bool = True) -> Platform:
        """A cluster that has joined nothing."""
        platform = self.clusters[name] = Platform(self._directory / name, warm=True)
        platform.__enter__()
        platform.server()
        if agent:
            platform.agent(f"{name}-node", gpus=gpus)
        return platform

    def is_heard(self, name: str) -> bool:
        members = self.plane.client().send(operator.members())
        return any(member.name == name and member.report and member.report.ready_nodes for member in members)

    def state(self, name: str) -> str:
        return self.plane.client().send(operator.member(name)).state

    def session(self, name: str) -> int:
        """Grows with every stream of the cluster that the global plane has heard a report in."""
        report = self.plane.client().send(operator.member(name)).report
        return 0 if report is None else report.incarnation

    def mode(self, name: str) -> str:
        return self.clusters[name].client().send(operator.uplink()).mode
