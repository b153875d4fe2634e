"""API tokens: `ares_<id>_<secret>`. Only the digest of the secret is ever kept."""

import hashlib
import hmac
import re

from ares.core.refusal import CredentialCode, Refusal
from ares.model.access import Principal, TokenRecord

# The secret is base64url and may itself hold "_": the id may not, so the text splits one way only.
_TEXT = re.compile(r"ares_([0-9a-z]{10})_([A-Za-z0-9_-]{43})", re.ASCII)
# Unknown ids are compared with this, so that they take as long as known ones.
_NOBODY = hashlib.sha256(b"").hexdigest()


def denied(code: CredentialCode, why: str = "") -> Refusal:
    """Why a credential is not accepted: for the audit log and metrics, so without words for the client, which is told
    nothing. A wrong secret is "unknown" too: it must not tell that the id exists. `why` is what exactly: of a signed
    token the check it failed, of a revoked one that its user or tenant is gone or disabled."""
    word = "bad_key" if code in ("unknown", "malformed") else code
    return Refusal(code=code, reason=f"{word}:{why}" if why else word)


def parse(text: str) -> tuple[str, str] | None:
    """The id and the secret of a presented token, or None when it does not look like one."""
    match = _TEXT.fullmatch(text)
    return (match[1], match[2]) if match else None


def format(token_id: str, secret: str) -> str:  # noqa: A001 - the opposite of parse
    return f"ares_{token_id}_{secret}"


def digest(secret: str) -> str:
    """SHA-256 is right here: the secret is 32 random bytes, so a slow hash would only tire the server."""
    return hashlib.sha256(secret.encode()).hexdigest()


def verify(record: TokenRecord | None, secret: str, now: float) -> Principal | Refusal:
    """The principal that presents `secret`, given the record stored under its id (None when there is none)."""
    same = hmac.compare_digest(digest(secret), _NOBODY if record is None else record.sha256)
    if record is None or not same:
        return denied("unknown")
    if record.revoked:
        return denied("revoked")
    if record.expires_at is not None and now >= record.expires_at:
        return denied("expired")
    return Principal(
        token_id=record.id,
        tenant=record.tenant,
        role=record.role,
        name=record.name,
        user=record.user,
        permissions=record.permissions,
        expires_at=record.expires_at,
        node=record.node,
        cluster=record.cluster,
    )
