"""TLS to etcd: the authority that signs its members, and the certificate of this client."""

from pathlib import Path
from urllib.parse import parse_qsl

import grpc

from ares.ports.store import StoreError

_NAMES = ("ca", "cert", "key")


def credentials_of(query: str) -> grpc.ChannelCredentials | None:
    """From the `ca=FILE&cert=FILE&key=FILE` of a store's URL; None when there is nothing of it. Raises ValueError for
    other words, StoreError when a file cannot be read."""
    pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True) if query else []
    files = dict(pairs)
    if not pairs:
        return None
    if len(files) < len(pairs) or "ca" not in files or not files.keys() <= set(_NAMES) or not all(files.values()):
        raise ValueError(f"{query!r}: TLS to etcd is ca=FILE, or ca=FILE&cert=FILE&key=FILE")
    if ("cert" in files) != ("key" in files):
        raise ValueError(f"{query!r}: a client's certificate and its key come together")
    try:
        ca, cert, key = (Path(files[name]).read_bytes() if name in files else None for name in _NAMES)
    except OSError as error:
        raise StoreError(f"TLS to etcd: cannot read {error.filename}: {error.strerror}") from error
    return grpc.ssl_channel_credentials(ca, key, cert)
