"""Signatures of requests to an S3-compatible store (AWS Signature Version 4), in headers or in a URL.

A signed header binds its value: with `content-length`, `x-amz-checksum-sha256` and `if-none-match` among them, a URL is
good for these bytes under this key, once, and for nothing else. No general library signs those into a URL.
"""

import base64
import hashlib
import hmac
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from msgspec import Struct

_ALGORITHM: Final = "AWS4-HMAC-SHA256"
UNSIGNED: Final = "UNSIGNED-PAYLOAD"
EMPTY_SHA256: Final = hashlib.sha256(b"").hexdigest()
# What a store accepts at most; a URL of ours is good for far less.
URL_S_MAX: Final = 7 * 86_400


class StoreCredentials(Struct, frozen=True):
    """`stamp`: the time of the request, as `20260131T235959Z`."""

    access_key: str
    secret_key: str
    region: str = "us-east-1"

    def scope(self, stamp: str) -> str:
        return f"{stamp[:8]}/{self.region}/s3/aws4_request"

    def sign(self, stamp: str, request: str) -> str:
        hashed = hashlib.sha256(request.encode()).hexdigest()
        text = f"{_ALGORITHM}\n{stamp}\n{self.scope(stamp)}\n{hashed}"
        key = f"AWS4{self.secret_key}".encode()
        for part in (stamp[:8], self.region, "s3", "aws4_request"):
            key = hmac.digest(key, part.encode(), "sha256")
        return hmac.new(key, text.encode(), "sha256").hexdigest()


def checksum(sha256: str) -> str:
    """A digest as the header `x-amz-checksum-sha256` has it."""
    return base64.b64encode(bytes.fromhex(sha256)).decode()


def encoded_path(path: str) -> str:
    return quote(path, safe="/-_.~")


def encoded_query(query: Mapping[str, str]) -> str:
    pairs = sorted((quote(name, safe="-_.~"), quote(value, safe="-_.~")) for name, value in query.items())
    return "&".join(f"{name}={value}" for name, value in pairs)


def signed_headers(
    credentials: StoreCredentials,
    method: str,
    host: str,
    path: str,
    *,
    query: Mapping[str, str],
    headers: Mapping[str, str],
    payload: str,
    stamp: str,
) -> dict[str, str]:
    """The headers of a request, with its signature. `payload` is the digest of its body."""
    sent = {**headers, "host": host, "x-amz-date": stamp, "x-amz-content-sha256": payload}
    names = ";".join(sorted(sent))
    signature = credentials.sign(stamp, _request(method, path, encoded_query(query), sent, payload))
    credential = f"{credentials.access_key}/{credentials.scope(stamp)}"
    sent["authorization"] = f"{_ALGORITHM} Credential={credential}, SignedHeaders={names}, Signature={signature}"
    return sent


def signed_url(
    credentials: StoreCredentials,
    method: str,
    origin: str,
    path: str,
    *,
    headers: Mapping[str, str],
    expires_s: int,
    stamp: str,
) -> str:
    """A URL for one request. `headers`, in lower case, have to be sent as they are here."""
    host = origin.split("://", 1)[1]
    bound = {**headers, "host": host}
    query = {
        "X-Amz-Algorithm": _ALGORITHM,
        "X-Amz-Credential": f"{credentials.access_key}/{credentials.scope(stamp)}",
        "X-Amz-Date": stamp,
        "X-Amz-Expires": str(expires_s),
        "X-Amz-SignedHeaders": ";".join(sorted(bound)),
    }
    signature = credentials.sign(stamp, _request(method, path, encoded_query(query), bound, UNSIGNED))
    return f"{origin}{encoded_path(path)}?{encoded_query(query)}&X-Amz-Signature={signature}"


def _request(method: str, path: str, query: str, headers: Mapping[str, str], payload: str) -> str:
    """The request in the form that is signed."""
    lines = "".join(f"{name}:{' '.join(headers[name].split())}\n" for name in sorted(headers))
    return "\n".join((method, encoded_path(path), query, lines, ";".join(sorted(headers)), payload))
