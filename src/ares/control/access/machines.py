"""Identities of machines: join tokens traded for certificates, renewed, listed and taken back."""

from collections.abc import Sequence
from typing import Final, Literal

import msgspec
import structlog
from msgspec.structs import replace

from ares.api.identity import CertificateState, CertificateView, Revoked
from ares.control.state.records import Records, unchanged
from ares.control.state.view import View
from ares.core import keys
from ares.core.access import certificates as rules
from ares.core.access import tokens as texts
from ares.core.access.tokens import denied
from ares.core.refusal import Refusal
from ares.model.access import Principal, TokenRecord
from ares.model.base import Record
from ares.model.node import AuthorityRecord, Certificate, MachineRecord, MachineRole, Presented
from ares.ports.certificates import Issuer, Signed
from ares.ports.clock import Clock
from ares.ports.store import KV, Compare, Put, Store, StoreUnavailable, Unknown

log = structlog.get_logger()

# What is wrong with a join token, or with what came with it.
_WHY: Final = {
    "malformed": "the request is no certificate request in PEM for a P-256 key",
    "name": "the join token is for another name",
    "expired": "the join token has expired",
    "revoked": "the join token was used by another key, or taken back",
    "taken": "a machine of this name is in; a token for any name admits only new names",
}
_NO_AUTHORITY = Refusal(code="no-authority")


class ForeignAuthority(Exception):
    """This replica would sign for another installation than the one whose store it has."""

    exit_code = 78
    fix = (
        "give all replicas the same authority: copy keys/agents-ca.pem and keys/agents-ca.key from the home directory "
        "of one that runs, or name them by agents.ca_cert and agents.ca_key"
    )


class Admitted(Record, frozen=True):
    """What a machine gets for its join token, or for the certificate it has: the next one, and whom to trust."""

    role: MachineRole
    name: str
    certificate: str
    authority: str
    ends_at: int


class MachineAuthority:
    """Without an issuer machines have tokens, as is enough on one machine; what was issued can be listed still."""

    def __init__(
        self, store: Store, view: View, clock: Clock, issuer: Issuer | None, life_s: int = rules.LIFE_S
    ) -> None:
        self._store = store
        self._records = Records(store, view)
        self._view = view
        self._clock = clock
        self._issuer = issuer
        self._life_s = life_s

    @property
    def signs(self) -> bool:
        return self._issuer is not None

    async def open(self) -> None:
        """Once, before any request is served. The first replica's authority becomes the installation's."""
        if (issuer := self._issuer) is None:
            return
        own = AuthorityRecord(fingerprint=issuer.fingerprint, certificate=issuer.authorities)

        async def attempt() -> bool | None:
            kv, known = await self._records.read(keys.AUTHORITY, AuthorityRecord) or (None, None)
            if known is not None and known.fingerprint not in issuer.fingerprints:
                raise ForeignAuthority(
                    f"the store's machines go by the authority {known.fingerprint[:16]}, "
                    f"this replica has {issuer.fingerprint[:16]}"
                )
            # One that signs from now on and trusts the one before is how an authority is replaced.
            put = _put(keys.AUTHORITY, own)
            return known == own or await self._write([unchanged(keys.AUTHORITY, kv)], [put]) or None

        await self._records.settle("the authority", attempt, seen=False)

    # ---- authentication

    def read(self, certificate: bytes) -> Presented | None:
        """What a certificate says whose chain was verified; None when it is no machine's."""
        return None if self._issuer is None else self._issuer.read(certificate)

    def identify(self, shown: Presented) -> Principal | Refusal:
        """Reads memory only: revocation takes effect as fast as the view follows."""
        return rules.verify(self._view.kept.machines.get(f"{shown.role}/{shown.name}"), shown, self._now())

    # ---- getting certificates

    async def invited(self, presented: str) -> Principal | Refusal:
        """The principal of a join token, also of one that is spent or expired: only `join` tells its holder so."""
        found = await self._token(presented)
        if isinstance(found, Refusal):
            return found
        token = found[1]
        return Principal(
            token_id=token.id, tenant=token.tenant, role=token.role, name=token.name, permissions=("machines:join",),
            node=token.node, cluster=token.cluster,
        )  # fmt: skip

    async def join(self, presented: str, name: str, request: str) -> Admitted | Refusal:
        """Spends a join token. The same key may trade it again until it expires: an answer can be lost."""
        if (issuer := self._issuer) is None:
            return _NO_AUTHORITY
        if (key := issuer.key_of(request)) is None:
            return join_denied("malformed")

        async def attempt() -> Admitted | Refusal | None:
            found = await self._token(presented)
            if isinstance(found, Refusal):
                return found
            kv, token = found
            role: MachineRole = "cluster" if token.cluster is not None else "node"
            machine_kv, machine = await self._machine(role, name)
            if why := rules.unwelcome(token, machine, key, self._now()):
                return join_denied(why)
            if rules.in_use(machine, self._now()):
                # One identity, one machine: what an earlier one of this name has is over.
                machine = rules.taken_back(machine, "a later join", self._now())
            fresh, signed = self._sign(issuer, request, machine, key, token.id)
            spent = self._ended(replace(token, node=name if role == "node" else None))
            changed = rules.with_certificate(machine, fresh, "", self._now())
            if not await self._write(
                [unchanged(kv.key, kv), unchanged(keys.machine(role, name), machine_kv)],
                [_put(kv.key, spent), _put(keys.machine(role, name), changed)],
            ):
                return None
            log.info("machine.joined", role=role, name=name, serial=fresh.serial, token=token.id)
            return self._admitted(issuer, machine, fresh, signed)

        return await self._records.settle("the join", attempt, seen=False)

    async def renew(self, shown: Presented, request: str) -> Admitted | Refusal:
        """The next certificate for a machine that proves itself by one that is still good."""
        issuer, key = self._issuer, None if self._issuer is None else self._issuer.key_of(request)
        if issuer is None or key is None:
            return denied("malformed")

        async def attempt() -> Admitted | Refusal | None:
            kv, machine = await self._machine(shown.role, shown.name)
            verified = rules.verify(machine, shown, self._now())
            if isinstance(verified, Refusal):
                return verified
            fresh, signed = self._sign(issuer, request, machine, key, "")
            changed = rules.with_certificate(machine, fresh, shown.serial, self._now())
            where = keys.machine(shown.role, shown.name)
            if not await self._write([unchanged(where, kv)], [_put(where, changed)]):
                return None
            log.info("machine.renewed", role=shown.role, name=shown.name, serial=fresh.serial)
            return self._admitted(issuer, machine, fresh, signed)

        return await self._records.settle("the certificate", attempt, seen=False)

    def _sign(
        self, issuer: Issuer, request: str, machine: MachineRecord, key: str, token: str
    ) -> tuple[Certificate, Signed]:
        issued_at = int(self._now())
        ends_at = issued_at + self._life_s
        signed = issuer.sign(request, machine.role, machine.name, machine.generation, (issued_at, ends_at))
        fresh = Certificate(
            serial=signed.serial, generation=machine.generation, key_sha256=key, issued_at=issued_at, ends_at=ends_at,
            token=token,
        )  # fmt: skip
        return fresh, signed

    def _admitted(self, issuer: Issuer, machine: MachineRecord, fresh: Certificate, signed: Signed) -> Admitted:
        return Admitted(
            role=machine.role,
            name=machine.name,
            certificate=signed.certificate,
            authority=issuer.authorities,
            ends_at=fresh.ends_at,
        )

    # ---- listing and revoking

    async def list(self, who: Principal) -> Sequence[CertificateView]:
        await self._view.catch_up()
        now = self._now()
        return [
            CertificateView(
                role=machine.role, name=machine.name, serial=certificate.serial,
                issued_at=certificate.issued_at, ends_at=certificate.ends_at, state=_state(machine, certificate, now),
                revoked_by=machine.revoked_by if _back(machine, certificate) else "",
            )
            for _, machine in sorted(self._view.kept.machines.items())
            for certificate in machine.certificates
        ]  # fmt: skip

    async def revoke(self, who: Principal, role: MachineRole, name: str) -> Revoked | None:
        """Every certificate and token of the machine, also join tokens for it. None when it never had any."""
        where = keys.machine(role, name)

        async def attempt() -> Revoked | Literal[False] | None:
            await self._view.catch_up()
            kv, machine = await self._machine(role, name)
            tokens = [
                (key, found)
                for found in self._view.kept.tokens.values()
                if (found.node if role == "node" else found.cluster) == name and not found.revoked
                for key in (keys.token(found.id),)
            ]
            if kv is None and not tokens and not (role == "node" and name in self._view.nodes):
                return False
            now = self._now()
            good = sum(_state(machine, certificate, now) == "valid" for certificate in machine.certificates)
            changed = rules.taken_back(machine, who.author, now)
            known = self._view.kept.tokens
            compares = [unchanged(where, kv), *(known.unchanged(found.id) for _, found in tokens)]
            puts = [_put(where, changed), *(_put(key, self._ended(found)) for key, found in tokens)]
            if not await self._records.write(compares, puts):
                return None
            log.warning("machine.revoked", role=role, name=name, by=who.author)
            return Revoked(role=role, name=name, certificates=good, tokens=len(tokens))

        return await self._records.settle(f"that {name} is revoked", attempt) or None

    # ---- records

    async def _token(self, presented: str) -> tuple[KV, TokenRecord] | Refusal:
        """A join token and its record. Of one whose secret is not right nothing is said."""
        parsed = texts.parse(presented)
        kv = None if parsed is None else await self._store.get(keys.token(parsed[0]))
        token = None if kv is None else msgspec.json.decode(kv.value, type=TokenRecord)
        lasting = None if token is None else replace(token, revoked=False, expires_at=None)
        shown = texts.verify(lasting, "" if parsed is None else parsed[1], self._now())
        if isinstance(shown, Refusal) or kv is None or token is None or not token.single_use:
            return join_denied("unknown")
        return kv, token

    async def _machine(self, role: MachineRole, name: str) -> tuple[KV | None, MachineRecord]:
        kv = await self._store.get(keys.machine(role, name))
        if kv is None:
            return None, MachineRecord(role=role, name=name)
        return kv, msgspec.json.decode(kv.value, type=MachineRecord)

    async def _write(self, compares: Sequence[Compare], puts: Sequence[Put]) -> bool:
        written = await self._store.txn(compares, puts)
        if isinstance(written, Unknown):
            raise StoreUnavailable("the store did not confirm it; try again")
        return written.succeeded

    def _ended(self, token: TokenRecord) -> TokenRecord:
        return replace(token, revoked=True, revoked_at=self._now())

    def _now(self) -> float:
        """By a clock that never goes back: set back, it would revive what has ended."""
        return self._clock.wall()


def join_denied(why: str) -> Refusal:
    """Says what is wrong with the token, to a machine that has one. Of an unknown one nothing is said."""
    fix = "Make a new join token: `ares token join --node NAME`."
    return replace(denied("join", why), message=_WHY.get(why, ""), fix=fix)


def _back(machine: MachineRecord, certificate: Certificate) -> bool:
    return certificate.generation < machine.generation


def _state(machine: MachineRecord, certificate: Certificate, now: float) -> CertificateState:
    return "revoked" if _back(machine, certificate) else "expired" if certificate.ends_at <= now else "valid"


def _put(key: str, record: Record) -> Put:
    return Put(key, msgspec.json.encode(record))
