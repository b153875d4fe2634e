"""The filter of system calls, run by a small machine of our own: so those of other processors are tested as well."""

import errno
import operator
import struct
from collections.abc import Callable

import pytest

from ares.adapters.executors.warden.seccomp import MACHINES, program

LOAD, JEQ, JGE, JSET, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
ALLOW, EPERM, ENOSYS = 0x7FFF0000, 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS
TESTS: dict[int, Callable[[int, int], object]] = {JEQ: operator.eq, JGE: operator.ge, JSET: int.__and__}


def verdict(code: bytes, arch: int, number: int, first: int = 0) -> int:
    """As the kernel would: over the fields of `struct seccomp_data`."""
    lines = list(struct.iter_unpack("=HBBI", code))
    data = struct.pack("<IIQ6Q", number, arch, 0, first, 0, 0, 0, 0, 0)
    at = held = 0
    while True:
        operation, yes, no, constant = lines[at]
        at += 1
        if operation == LOAD:
            held = struct.unpack_from("<I", data, constant)[0]
        elif operation == RETURN:
            return constant
        else:
            at += yes if TESTS[operation](held, constant) else no


@pytest.mark.parametrize("name", sorted(MACHINES))
def test_what_is_denied_is_denied_and_nothing_else(name: str) -> None:
    machine = MACHINES[name]
    code, arch = program(machine), machine.arch
    special = {machine.clone, machine.unshare, 435}
    for number in range(600):
        if number not in special:
            assert verdict(code, arch, number) == (EPERM if number in machine.denied else ALLOW), number
    assert verdict(code, arch, 435) == ENOSYS


@pytest.mark.parametrize("name", sorted(MACHINES))
@pytest.mark.parametrize(
    ("flags", "allowed"),
    [
        # fork, a thread, vfork; then each kind of namespace.
        (0x01200011, True), (0x003D0F00, True), (0x00004111, True),
        (0x10000000, False), (0x00020000, False), (0x20000000, False), (0x40000000, False), (0x08000000, False),
        (0x04000000, False), (0x02000000, False), (0x80, False), (0x10000011, False),
    ],
)  # fmt: skip
def test_processes_and_threads_may_be_made_and_namespaces_may_not(name: str, flags: int, allowed: bool) -> None:
    machine = MACHINES[name]
    code = program(machine)
    for number in (machine.clone, machine.unshare):
        assert verdict(code, machine.arch, number, flags) == (ALLOW if allowed else EPERM)


def test_calls_under_other_numbers_are_refused() -> None:
    """Of 32 bits, of x32, and of another processor."""
    machine = MACHINES["x86_64"]
    code = program(machine)
    assert verdict(code, 0x40000003, 4) == EPERM
    assert verdict(code, machine.arch, 0x40000000 | 1) == EPERM
    assert verdict(code, MACHINES["aarch64"].arch, 64) == EPERM
