"""A stand-in for Julia: workers that answer as `julia --worker` does, and a program that calls them as the guide says.

It runs no Julia code. As Distributed does it, a caller sends the cookie and its version, 16 characters each."""

import os
import re
import socket
import sys
from pathlib import Path

COOKIE_CHARS = VERSION_CHARS = 16
VERSION = b"1.11.0".ljust(VERSION_CHARS)


def worker(bind_to: str) -> None:
    cookie = sys.stdin.readline().strip().ljust(COOKIE_CHARS).encode()
    address, port = bind_to.rsplit(":", 1)
    with socket.create_server((address, int(port))) as server:
        tell(f"julia_worker:{port}#{address}")
        while True:
            caller = server.accept()[0]
            with caller:
                if received(caller, COOKIE_CHARS) != cookie or not received(caller, VERSION_CHARS):
                    continue
                caller.sendall(VERSION)
                for line in caller.makefile():
                    if line == "die\n":
                        os.abort()
                    caller.sendall(f"{int(line) ** 2}\n".encode())
                # The program is over.
                return


def tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def received(caller: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count and (more := caller.recv(count - len(data))):
        data += more
    return data


def program(manager: str, script: str) -> None:
    assert "ClusterManager" in Path(manager).read_text()
    assert "pmap" in Path(script).read_text()
    cookie = Path(os.environ["ARES_JULIA_COOKIE"]).read_text().strip().ljust(COOKIE_CHARS).encode()
    callers = list[socket.socket]()
    for line in Path(os.environ["ARES_RANKS_FILE"]).read_text().splitlines():
        _, address, *ports = line.split()
        for port in ports:
            caller = socket.create_connection((address, int(port)))
            caller.sendall(cookie + VERSION)
            assert received(caller, VERSION_CHARS) == VERSION
            callers.append(caller)
    squares = list[int]()
    for number in range(1, 11):
        caller = callers[number % len(callers)]
        caller.sendall(b"die\n" if os.environ.get("DIES") and number == 5 else b"%d\n" % number)
        squares.append(int(re.sub(rb"\D", b"", caller.recv(100)) or b"0"))
    for caller in callers:
        caller.close()
    tell(f"{len(callers)} workers: {sum(squares)}")


if __name__ == "__main__":
    words = sys.argv[1:]
    if words[0] == "--worker":
        worker(words[2])
    else:
        assert words[0] == "-L", words
        program(words[1], words[2])
