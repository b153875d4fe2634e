"""The network that the chaos tests believe in: each fault is what it says, and healing ends it."""

import contextlib
import random
import select
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from ares.sim.chaos import proxy as faults
from ares.sim.chaos.proxy import BEHAVIOURS, Proxy, ProxyWay

PATIENCE_S = 20.0
# Long enough for bytes to have come if they could.
MOMENT_S = 0.2


class Echo(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        with contextlib.suppress(OSError):
            while data := self.request.recv(4096):
                self.request.sendall(data)


class EchoServer(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with EchoServer(("127.0.0.1", 0), Echo) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        with Proxy(f"127.0.0.1:{server.server_address[1]}", seed=7) as proxy:
            yield proxy
        server.shutdown()


def connect(proxy: Proxy) -> "closing[socket.socket]":
    host, port = proxy.address.split(":")
    return closing(socket.create_connection((host, int(port)), PATIENCE_S))


def echoes(one: socket.socket, data: bytes = b"ping") -> bool:
    one.sendall(data)
    return receive(one, len(data)) == data


def receive(one: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count and (more := one.recv(count - len(data))):
        data += more
    return data


def quiet(one: socket.socket) -> bool:
    return not select.select([one], [], [], MOMENT_S)[0]


def test_bytes_come_through_whole_in_both_directions_and_so_does_the_end(proxy: Proxy) -> None:
    data = random.Random(1).randbytes(300_000)
    with connect(proxy) as one:
        threading.Thread(target=one.sendall, args=(data,), daemon=True).start()
        assert receive(one, len(data)) == data
        one.shutdown(socket.SHUT_WR)
        assert one.recv(1) == b""
    assert proxy.carried == {"tx": len(data), "rx": len(data)}


def test_a_held_direction_carries_nothing_until_it_is_released(proxy: Proxy) -> None:
    with connect(proxy) as one:
        assert echoes(one)
        proxy.hold("rx")
        before = proxy.carried["tx"]
        one.sendall(b"held")
        assert quiet(one)
        assert proxy.carried["tx"] == before + 4, "the other direction was held too"
        proxy.hold("tx")
        one.sendall(b" back")
        assert quiet(one)
        assert proxy.carried["tx"] == before + 4
        proxy.release("rx")
        assert receive(one, 4) == b"held"
        proxy.release("tx")
        assert receive(one, 5) == b" back"


def test_a_connection_made_during_a_cut_works_after_it(proxy: Proxy) -> None:
    proxy.cut()
    with connect(proxy) as one:
        one.sendall(b"hello")
        assert quiet(one)
        proxy.heal()
        assert receive(one, 5) == b"hello"


def test_a_half_open_connection_never_answers_again_and_new_ones_work(proxy: Proxy) -> None:
    with connect(proxy) as one:
        assert echoes(one)
        proxy.half_open()
        one.sendall(b"anybody")
        assert quiet(one)
        proxy.heal()
        assert quiet(one)
        with connect(proxy) as other:
            assert echoes(other)


def test_resets_reach_both_ends(proxy: Proxy) -> None:
    with connect(proxy) as one:
        assert echoes(one)
        proxy.reset()
        with pytest.raises(ConnectionResetError):
            one.recv(1)
    proxy.carry(rx=ProxyWay(reset_within=1000))
    with connect(proxy) as one:
        one.sendall(bytes(1000))
        with pytest.raises(ConnectionResetError):
            receive(one, 1001)
    assert proxy.connections == 0


def test_closed_and_silent_doors(proxy: Proxy) -> None:
    proxy.door("closed")
    with pytest.raises(ConnectionResetError), connect(proxy) as one:
        one.recv(1)
    proxy.door("silent")
    with connect(proxy) as one:
        one.sendall(b"anybody")
        assert quiet(one)
    assert proxy.carried == {"tx": 0, "rx": 0}


def test_loss_stalls_what_is_sent_and_in_the_end_resets(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults, "_RESEND_S", 0.005)
    proxy.carry(tx=ProxyWay(loss=1.0))
    with connect(proxy) as one:
        one.sendall(b"lost")
        with pytest.raises(ConnectionResetError):
            one.recv(1)
    assert proxy.carried["tx"] == 0


def test_a_slow_direction_trickles(proxy: Proxy) -> None:
    proxy.carry(tx=ProxyWay(rate=100))
    with connect(proxy) as one:
        one.sendall(bytes(1000))
        receive(one, 1)
        assert proxy.carried["tx"] < 1000
        proxy.heal()
        assert receive(one, 999) == bytes(999)


@pytest.mark.parametrize("name", sorted(BEHAVIOURS))
def test_every_behaviour_ends_when_healed(proxy: Proxy, name: str) -> None:
    with connect(proxy) as before:
        assert echoes(before)
        BEHAVIOURS[name](proxy)
        with contextlib.suppress(OSError):
            before.sendall(b"during")
        proxy.heal()
        with connect(proxy) as after:
            assert echoes(after, b"all is well")
