"""How an agent comes by its identity: by what it kept, or by trading a join token."""

import asyncio
import itertools
import os
from pathlib import Path
from typing import Final, NamedTuple

import structlog

from ares.adapters.certificates import X509Requests
from ares.adapters.clocks import SystemClock
from ares.adapters.links import rest
from ares.adapters.links.grpc import GrpcLink
from ares.agent.link import identity
from ares.app import connection_file
from ares.app.config import Config
from ares.core.net import is_loopback
from ares.edge.client.aio import AsyncClient
from ares.edge.client.errors import AresError
from ares.ports.link import LinkBroken, LinkRefused, Proof

log = structlog.get_logger()

_REACH_EVERY_S: Final = 0.2
# The same trouble is told so often.
_SAY_AGAIN_S: Final = 30.0
_API_PORT: Final = 8642


class Joined(NamedTuple):
    """By what a node is known: a certificate, or where that is enough a token."""

    credential: str = ""
    proof: Proof | None = None


class Joining:
    """The join of one node. A node on another machine than the control plane always has a certificate."""

    def __init__(
        self, config: Config, name: str, state_dir: Path, token: str, auto_join: bool, *, admits: bool = False
    ) -> None:
        """`admits`: the environment has a token by which nodes are admitted, ARES_URL and ARES_TOKEN."""
        self._config = config
        self._name = name
        self._state_dir = state_dir
        self._token = token
        self._auto_join, self._admits = auto_join, admits
        # Kept between tries: each goes to the next address.
        self._link = GrpcLink(config.node.servers)
        self._hosts = itertools.cycle(server.rpartition(":")[0] for server in config.node.servers)
        hosts = (server.rpartition(":")[0].strip("[]") for server in config.node.servers)
        self._certified = config.agents.tls == "on" or not all(map(is_loopback, hosts))

    def known(self) -> Joined | None:
        """What an earlier agent of this node has kept, if it is still good."""
        if not self._certified:
            credential = identity.load(self._state_dir)
            return None if credential is None else Joined(credential)
        proof = identity.load_proof(self._state_dir)
        if proof is None:
            return None
        ends_at = X509Requests().life(proof.certificate)[1]
        if ends_at <= SystemClock().wall():
            log.warning("agent.certificate_ended", node=self._name, ended_at=ends_at)
            return None
        return Joined(proof=proof)

    async def join(self) -> Joined | None:
        """Keeps trying until the control plane answers, and says why it does not. A refusal is for good."""
        said, said_at = "", 0.0
        while self._token or self._auto_join or self._admits:
            try:
                token = self._token or await self._ask_token()
                return await (self._certify(token) if self._certified else self._trade(token))
            except LinkRefused as refusal:
                log.error("agent.join_refused", node=self._name, why=str(refusal))
                return None
            except (LinkBroken, AresError, OSError, ValueError) as error:
                why, now = str(error), SystemClock().monotonic()
                if why != said or now - said_at > _SAY_AGAIN_S:
                    log.warning("agent.cannot_reach_server", node=self._name, why=why, next="it goes on trying")
                    said, said_at = why, now
                await asyncio.sleep(_REACH_EVERY_S)
        return None

    async def _trade(self, token: str) -> Joined:
        return Joined(await identity.join(self._link, token=token, node=self._name, state_dir=self._state_dir))

    async def _certify(self, token: str) -> Joined:
        requests = X509Requests()
        key = identity.join_key(self._state_dir, requests)
        certificate, authorities = await rest.join(
            self._api(), self._config.node.tls_ca, token=token, name=self._name, request=requests.request(key)
        )
        proof = Proof(authorities, certificate, key)
        identity.save_proof(proof, self._state_dir)
        return Joined(proof=proof)

    def _api(self) -> str:
        if self._config.node.api:
            return self._config.node.api
        if self._admits and (url := os.environ.get("ARES_URL", "")):
            return url.partition(",")[0]
        known = connection_file.connection(self._config.home_path) if self._auto_join else None
        if known is not None:
            return known[0]
        return f"https://{next(self._hosts)}:{_API_PORT}"

    async def _ask_token(self) -> str:
        """On the server's own machine the administrator's token is at hand."""
        if self._admits:
            async with AsyncClient() as client:
                return (await client.create_join_token(node=self._name)).token
        known = connection_file.connection(self._config.home_path)
        if known is None:
            raise OSError(f"no server has left a token in {self._config.home} yet")
        async with AsyncClient(*known) as client:
            return (await client.create_join_token(node=self._name)).token
