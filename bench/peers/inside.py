"""First process of a cage: brings its loopback up, then becomes the command. Standard library only."""

import fcntl
import os
import socket
import struct
import sys

_SIOCSIFFLAGS, _SIOCSIFADDR, _IFF_UP = 0x8914, 0x8916, 0x1
# Slurm asks the resolver for addresses of a "configured" family, which loopback's own does not count for.
_ALIAS = "10.255.255.1"


def main(command: list[str]) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        fcntl.ioctl(probe, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", _IFF_UP))
        address = struct.pack("16sHH4s8x", b"lo:1", socket.AF_INET, 0, socket.inet_aton(_ALIAS))
        fcntl.ioctl(probe, _SIOCSIFADDR, address)
    os.execv(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
