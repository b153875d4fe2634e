"""The pace of one attempt's upload: pieces go when the node's door lets them, and none while the control plane cannot
keep what the tenant sends."""

import asyncio
from collections.abc import Callable
from typing import Final

from ares.agent.transfer.transfers import CONTROL_PLANE, Transfers
from ares.model.quota import TransferKind

# Asked for at once: a tenant's backlog has to be seen for its part of the link to be right.
_ASK_BYTES: Final = 1 << 20


class UploadPace:
    """`wake` is called when more may be sent."""

    def __init__(
        self,
        transfers: Transfers,
        tenant: str,
        job: str,
        wake: Callable[[], None],
        kind: TransferKind = "output",
    ) -> None:
        self._transfers = transfers
        self._kind: TransferKind = kind
        self._tenant, self._job = tenant, job
        self._wake = wake
        self._granted = 0
        self._asked = 0
        self._is_urgent = False
        self._withdraw: Callable[[], None] = lambda: None
        self._timer: asyncio.TimerHandle | None = None

    def room(self, wanted: int) -> int:
        """How many of the bytes that are to be sent may go now. With 0, `wake` follows."""
        if not self._granted and self._transfers.limited(self._tenant):
            if not self._asked and self._timer is None:
                self._asked = min(wanted, _ASK_BYTES)
                self._ask()
            return 0
        # Last: where the endpoint is left alone, this may take the one turn that finds out whether it answers again.
        if self._away():
            return 0
        if not self._granted:
            self._transfers.count(self._tenant, self._kind, wanted)
            return wanted
        return min(wanted, self._granted)

    def hurry(self) -> None:
        """From now on it goes before other bytes of its tenant, and more often than other tenants': its place is kept
        until it is there. Its tenant's rate stays what it is."""
        if self._is_urgent:
            return
        self._is_urgent = True
        if self._asked:
            self._withdraw()
            self._ask()

    def _ask(self) -> None:
        self._withdraw = self._transfers.ask(
            self._tenant, self._kind, self._asked, self._more, urgent=self._is_urgent
        )  # fmt: skip

    def sent(self, size: int) -> None:
        self._granted = max(0, self._granted - size)

    @property
    def patient(self) -> bool:
        """Whether a piece that was not kept is sent again however often that takes."""
        return self._transfers.stays_away(self._tenant, CONTROL_PLANE)

    def answered(self, *, kept: bool) -> None:
        self._transfers.ended(self._tenant, CONTROL_PLANE, ok=kept)

    def rewound(self) -> None:
        """The connection broke: what was sent has no answer."""
        self._transfers.given_up(self._tenant, CONTROL_PLANE)

    def close(self) -> None:
        self._withdraw()
        self._asked = 0
        self._transfers.goes_on(self._job)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _more(self, piece: int) -> None:
        self._granted += piece
        self._asked -= piece
        self._wake()

    def _away(self) -> bool:
        if self._timer is not None:
            return True
        wait_s = self._transfers.turn_now(self._tenant, CONTROL_PLANE)
        if not wait_s:
            self._transfers.goes_on(self._job)
            return False
        self._transfers.pauses(self._job, CONTROL_PLANE)
        self._timer = asyncio.get_running_loop().call_later(wait_s, self._over)
        return True

    def _over(self) -> None:
        self._timer = None
        self._wake()
