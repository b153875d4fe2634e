"""The global plane that this cluster belongs to: joining it, leaving it, and what of that is kept."""

from collections.abc import Callable
from urllib.parse import urlsplit

import msgspec
import structlog
from msgspec.structs import replace

from ares.api.nodes import UplinkBody, UplinkView
from ares.control.governance.lent_quotas import LentQuotas
from ares.control.state.records import Records, unchanged
from ares.control.state.view import View
from ares.core import keys
from ares.core.federation.epochs import newborn
from ares.core.refusal import Refusal
from ares.model.access import Principal
from ares.model.node import NodeRecord
from ares.model.secret import SealedText, Secret
from ares.model.uplink import ClusterMode, UplinkProof, UplinkRecord
from ares.ports.clock import Clock
from ares.ports.cluster_link import GlobalPlane
from ares.ports.link import LinkBroken, LinkRefused
from ares.ports.secrets import Sealed, Vault, VaultError
from ares.ports.store import Delete, Put, Store

log = structlog.get_logger()

_BINDING = b"uplink"
_LINK_PORT = 8643
NO_UPLINK = Refusal(
    code="not-found", message="this cluster belongs to no global plane", fix="join one with `ares cluster join`"
)


class Membership:
    def __init__(
        self, store: Store, view: View, clock: Clock, vault: Vault | None, plane: GlobalPlane | None, epoch: int,
        lent: LentQuotas,
    ) -> None:  # fmt: skip
        self._lent = lent
        self._records = Records(store, view)
        self._view = view
        self._clock = clock
        self._vault = vault
        self._plane = plane
        self._epoch = epoch
        self._encode = msgspec.json.Encoder().encode

    @property
    def record(self) -> UplinkRecord | None:
        return self._view.kept.uplink.get("")

    @property
    def plane(self) -> GlobalPlane:
        assert self._plane is not None, "a cluster without a way to its global plane has no record of one"
        return self._plane

    async def join(self, who: Principal, body: UplinkBody) -> UplinkView | Refusal:
        """Trades the token, keeps the proof sealed, and connects within a moment."""
        if self._plane is None or self._vault is None:
            return Refusal(code="secrets-key", message="this server keeps no secrets, so it cannot keep its identity")
        if self.record is not None:
            message = f"this cluster belongs to the global plane at {self.record.api} already, as {self.record.name}"
            return Refusal(code="not-allowed", message=message, fix="leave it first: `ares cluster leave`")
        servers = body.servers or (_default_server(body.api),)
        try:
            proof = await self._plane.join(body.api, servers, body.token, body.name, body.authorities)
        except LinkRefused as error:
            fix = "make a new token at the global plane: `ares token join --cluster NAME`"
            return Refusal(code="invalid", message=f"the global plane refused: {error}", fix=fix)
        except LinkBroken as error:
            fix = "check the address, and --ca if its certificate is its own"
            return Refusal(code="invalid", message=f"the global plane cannot be reached: {error}", fix=fix)
        record = UplinkRecord(
            name=body.name, servers=servers, api=body.api, sealed=self._seal(proof),
            renew_at=self._plane.renew_at(proof), region=body.region, joined_at=self._clock.wall(), by=who.author,
            mode_since=self._clock.wall(), mode_why="joined just now",
        )  # fmt: skip
        kept = await self._change(lambda before: record)
        if body.region and not isinstance(kept, Refusal):
            await self._place_nodes(body.region)
        log.info("uplink.joined", name=body.name, api=body.api, by=who.author)
        return kept if isinstance(kept, Refusal) else self.view_of(kept)

    async def _place_nodes(self, region: str) -> None:
        """Nodes that do not say where they are are where the cluster is: the global plane routes jobs of that residency
        here, and they would wait for ever. Nodes that come later are enrolled so."""
        for name in [name for name, known in self._view.nodes.items() if not known.info.region]:
            key = keys.node(name)

            async def attempt(key: str = key) -> bool | None:
                found = await self._records.read(key, NodeRecord)
                if found is None or found[1].info.region:
                    return True
                placed = replace(found[1], info=replace(found[1].info, region=region))
                return await self._records.ensure([unchanged(key, found[0])], [Put(key, self._encode(placed))]) or None

            await self._records.settle(f"the region of node {name}", attempt)

    async def forget(self, who: Principal, *, force: bool) -> UplinkView | Refusal:
        """The cluster is on its own from now on; what it owns goes on here."""
        record = self.record
        if record is None:
            return NO_UPLINK
        open_ = sum(
            not taken.settled and taken.possession.taken is not None for taken in self._view.kept.taken.values()
        )
        if open_ and not force:
            message = f"{open_} jobs of the global plane are here and have not ended"
            fix = f"drain it there first: `ares cluster drain {record.name}`; with --force it goes on to wait for them"
            return Refusal(code="not-allowed", message=message, fix=fix)
        gone = (Delete(keys.ALLOWANCES, prefix=True),)
        await self._records.delete(keys.UPLINK, "the uplink", NO_UPLINK, gone)
        log.warning("uplink.left", name=record.name, api=record.api, by=who.author, jobs=open_)
        return self.view_of(record)

    def view_of(self, record: UplinkRecord) -> UplinkView:
        taken = [found for found in self._view.kept.taken.values() if found.possession.taken and not found.settled]
        return UplinkView(
            name=record.name, code=record.code, servers=record.servers, api=record.api, mode=record.mode,
            mode_s=max(0.0, self._clock.wall() - record.mode_since), taken=len(taken), why=record.mode_why,
            lent=self._lent.of_cluster(record.name),
        )  # fmt: skip

    # ---- what the link changes

    async def began(self) -> UplinkRecord | Refusal:
        """The next incarnation, for the reports of one leader's time. A restored cluster has forgotten its last ones:
        the epoch of its store comes first in the number."""
        return await self._change(lambda before: None if before is None else _next(before, self._epoch))

    async def welcomed(self, code: str, generation: int) -> None:
        await self._change(
            lambda before: None if before is None else replace(before, code=code, generation=generation)
        )  # fmt: skip

    async def renewed(self, proof: UplinkProof) -> None:
        sealed, at = self._seal(proof), self.plane.renew_at(proof)
        await self._change(lambda before: None if before is None else replace(before, sealed=sealed, renew_at=at))

    async def entered(self, mode: ClusterMode, why: str) -> None:
        """The newest reason is kept also when the mode stays: it says what to do about it."""
        record, why = self.record, why[:1000]
        if record is None or (record.mode, record.mode_why) == (mode, why):
            return
        log.warning("uplink.mode", mode=mode, before=record.mode, why=why)
        since = record.mode_since if record.mode == mode else self._clock.wall()

        def changed(before: UplinkRecord | None) -> UplinkRecord | None:
            healed = self._epoch if mode == "FEDERATED" else 0 if before is None else before.healed_in
            same = None if before is None else replace(before, mode=mode, mode_since=since, healed_in=healed)
            return None if same is None else replace(same, mode_why=why)

        await self._change(changed)

    async def _change(self, change: Callable[[UplinkRecord | None], UplinkRecord | None]) -> UplinkRecord | Refusal:
        async def attempt() -> UplinkRecord | Refusal | None:
            kv, before = await self._records.read(keys.UPLINK, UplinkRecord) or (None, None)
            after = change(before)
            if after is None or after == before:
                return after or NO_UPLINK
            put = Put(keys.UPLINK, self._encode(after))
            return after if await self._records.ensure([unchanged(keys.UPLINK, kv)], [put]) else None

        return await self._records.settle("the link to the global plane", attempt)

    # ---- the proof

    def proof(self, record: UplinkRecord) -> UplinkProof:
        """Raises LinkRefused when it cannot be opened here."""
        if self._vault is None:
            raise LinkRefused("this server keeps no secrets")
        sealed = record.sealed
        try:
            opened = self._vault.open(
                Sealed(sealed.ciphertext, sealed.nonce, sealed.wrapped, sealed.key_id), _BINDING
            )  # fmt: skip
        except (VaultError, OSError) as error:
            raise LinkRefused(f"the cluster's identity cannot be opened: {error}") from None
        return msgspec.json.decode(opened.reveal(), type=UplinkProof)

    def _seal(self, proof: UplinkProof) -> SealedText:
        assert self._vault is not None, "checked before a token is traded"
        sealed = self._vault.seal(Secret(self._encode(proof)), _BINDING)
        return SealedText(
            ciphertext=sealed.ciphertext, nonce=sealed.nonce, wrapped=sealed.wrapped, key_id=sealed.key_id
        )  # fmt: skip


def _next(record: UplinkRecord, epoch: int) -> UplinkRecord:
    return replace(record, incarnation=max(record.incarnation, newborn(epoch)) + 1)


def _default_server(api: str) -> str:
    host = urlsplit(api).hostname or "127.0.0.1"
    return f"[{host}]:{_LINK_PORT}" if ":" in host else f"{host}:{_LINK_PORT}"
