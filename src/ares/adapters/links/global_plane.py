"""A cluster's end of the gRPC stream to its global plane. Messages are MessagePack of `model.cluster_link`."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from typing import Any, Final

import grpc
import grpc.aio
import msgspec

from ares.adapters.links import rest
from ares.adapters.links.grpc import GrpcLink, explain, proof_of, readable
from ares.core.access.certificates import renew_after_s
from ares.core.net import is_loopback
from ares.model.cluster_link import AskCommand, AskMessage, ClusterFrame, GlobalFrame
from ares.model.link import CertifyRequest, JoinRequest
from ares.model.uplink import UplinkProof
from ares.ports.certificates import Requests
from ares.ports.link import LinkBroken, Proof

_SERVICE: Final = "/ares.v1.ClusterLink"
_SEND_TIMEOUT_S: Final = 15.0
_CLOSE_TIMEOUT_S: Final = 1.0
_encode_frame = msgspec.msgpack.Encoder().encode


class GrpcGlobalPlane:
    """`ports.cluster_link.GlobalPlane`. Outside of this machine both ends always have certificates."""

    def __init__(self, requests: Requests, *, certified: bool) -> None:
        """`certified`: also on this machine."""
        self._requests = requests
        self._certified = certified

    async def join(self, api: str, servers: tuple[str, ...], token: str, name: str, authorities: str) -> UplinkProof:
        if not self._needs_certificate(servers):
            joined = await GrpcLink(servers).join(JoinRequest(token=token, node=name))
            return UplinkProof(credential=joined.credential)
        key = self._requests.new_key()
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
            file.write(authorities)
            file.flush()
            trusted = file.name if authorities else ""
            certificate, authority = await rest.join(
                api, trusted, token=token, name=name, request=self._requests.request(key)
            )  # fmt: skip
        return UplinkProof(authorities=authority, certificate=certificate, key=key)

    async def renew(self, servers: tuple[str, ...], proof: UplinkProof) -> UplinkProof:
        key = self._requests.new_key()
        link = GrpcLink(servers, _proof(proof))
        reply = await link.certify(CertifyRequest(request=self._requests.request(key)))
        return UplinkProof(authorities=reply.authority, certificate=reply.certificate, key=key)

    def renew_at(self, proof: UplinkProof) -> float | None:
        if not proof.certificate:
            return None
        begins, ends = self._requests.life(proof.certificate)
        return begins + renew_after_s(begins, ends, begins)

    async def connect(self, servers: tuple[str, ...], proof: UplinkProof) -> "GrpcClusterStream":
        link = GrpcLink(servers, _proof(proof))
        address, channel = await link.open()
        return GrpcClusterStream(address, channel, proof.credential, link)

    def _needs_certificate(self, servers: tuple[str, ...]) -> bool:
        return self._certified or not all(is_loopback(server.rpartition(":")[0].strip("[]")) for server in servers)


class GrpcClusterStream:
    """One open stream (`ports.cluster_link.ClusterStream`)."""

    def __init__(self, address: str, channel: grpc.aio.Channel, credential: str, link: GrpcLink) -> None:
        self._address, self._channel, self._credential, self._link = address, channel, credential, link
        open_stream = channel.stream_stream(
            f"{_SERVICE}/Session",
            request_serializer=_encode_frame,
            response_deserializer=msgspec.msgpack.Decoder(GlobalFrame).decode,
        )
        self._call: grpc.aio.StreamStreamCall[ClusterFrame, GlobalFrame] = open_stream(metadata=proof_of(credential))

    async def send(self, frame: ClusterFrame) -> None:
        try:
            async with asyncio.timeout(_SEND_TIMEOUT_S):
                await self._call.write(frame)
        except TimeoutError:
            raise LinkBroken(f"{self._address} took nothing for {_SEND_TIMEOUT_S:g} s") from None
        except grpc.aio.AioRpcError as error:
            raise explain(self._address, error) from None
        except asyncio.InvalidStateError:
            raise LinkBroken(f"{self._address} ended the stream: {await self._call.details()}") from None

    async def frames(self) -> AsyncIterator[GlobalFrame]:
        while True:
            try:
                frame: Any = await self._call.read()
            except grpc.aio.AioRpcError as error:
                raise explain(self._address, error) from None
            if not isinstance(readable(frame, self._address), GlobalFrame):
                code, details = await self._call.code(), await self._call.details()
                raise LinkBroken(f"{self._address} ended the stream: {details or code.name}")
            yield frame

    async def asks(self) -> "GrpcAskStream":
        """On a connection of its own: bulk must not share a flow-control window with what is decided."""
        return GrpcAskStream(self._address, self._link.channel(self._address), self._credential)

    async def close(self) -> None:
        self._call.cancel()
        await self._channel.close(_CLOSE_TIMEOUT_S)


class GrpcAskStream:
    """The stream for requests (`ports.cluster_link.AskStream`)."""

    def __init__(self, address: str, channel: grpc.aio.Channel, credential: str) -> None:
        self._address, self._channel = address, channel
        open_stream = channel.stream_stream(
            f"{_SERVICE}/Asks",
            request_serializer=_encode_frame,
            response_deserializer=msgspec.msgpack.Decoder(AskCommand).decode,
        )
        self._call: grpc.aio.StreamStreamCall[AskMessage, AskCommand] = open_stream(metadata=proof_of(credential))

    async def send(self, message: AskMessage) -> None:
        try:
            await self._call.write(message)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            raise LinkBroken(f"{self._address} ended the stream for requests") from None

    async def commands(self) -> AsyncIterator[AskCommand]:
        while True:
            try:
                command: Any = await self._call.read()
            except grpc.aio.AioRpcError as error:
                raise explain(self._address, error) from None
            if readable(command, self._address) is grpc.aio.EOF:
                raise LinkBroken(f"{self._address} ended the stream for requests")
            yield command

    async def close(self) -> None:
        self._call.cancel()
        await self._channel.close(_CLOSE_TIMEOUT_S)


def _proof(proof: UplinkProof) -> Proof | None:
    return Proof(proof.authorities, proof.certificate, proof.key) if proof.certificate else None
