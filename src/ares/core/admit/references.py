"""What a job's input references may say. Nothing is fetched here: a reference that must never be is not kept either."""

import re
from typing import Final
from urllib.parse import unquote, urlsplit

from ares.core.net.addresses import literal, refused
from ares.core.refusal import Refusal
from ares.model.job import JobSpec

SCHEMES: Final = ("ares", "gs", "https", "s3")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/+-]*(@[A-Za-z0-9._:+-]+)?|sha256:[0-9a-f]{64}", re.ASCII)
_HOST: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?\.?|[0-9A-Fa-f:.]+", re.ASCII)
# Names of a machine itself and of clouds' metadata. Other names are judged by what they resolve to, when they are.
_INSIDE: Final = ("localhost", "localdomain", "internal", "local")
_FIX: Final = f"name a dataset, a sha256: digest, or a URL of {', '.join(SCHEMES)} on the open internet"


def references(spec: JobSpec) -> Refusal | None:
    for place, ref in enumerate(spec.input_refs):
        why = _why_not(ref)
        if why is not None:
            message = f"inputRefs[{place}] cannot be used: {why}"
            return Refusal(code="input-ref", message=message, fix=_FIX, reason="ssrf")
    return None


def _why_not(ref: str) -> str | None:
    if "://" not in ref:
        if _NAME.fullmatch(ref) is None:
            return "it is neither a URL nor a name of letters, digits and . _ / + - with an optional @version"
        return _dots(ref)
    try:
        parts = urlsplit(ref)
        host = parts.hostname or ""
        _ = parts.port
    except ValueError as error:
        return f"it is no URL: {error}"
    if parts.scheme not in SCHEMES:
        return f"its scheme is {parts.scheme[:20]!r}"
    if "@" in parts.netloc:
        return "it has a user or password in it, which everybody who sees the job would see"
    return _host(host) or _dots(parts.path)


def _host(host: str) -> str | None:
    if _HOST.fullmatch(host) is None:
        return "it names no host" if not host else f"its host {host[:60]!r} is no name"
    address = literal(host)
    if address is not None:
        return refused(address)
    inside = host.rstrip(".").lower().rsplit(".", 1)[-1] in _INSIDE
    return f"its host {host[:60]!r} is not of the open internet" if inside else None


def _dots(path: str) -> str | None:
    """Why a path means another one than it says; None when it does not."""
    steps = [unquote(step) for step in path.split("/")]
    if any(step in (".", "..") or set(step) & {"/", "\\", "\0"} for step in steps):
        return "its path has a ., a .. or an encoded slash in it"
    return None
