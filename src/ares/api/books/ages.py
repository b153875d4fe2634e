"""How old what is known of a global plane's clusters is, beside every figure that is made of it."""

from ares.model.base import Record


class ClusterAge(Record, frozen=True):
    """One cluster. While it is silent its figures are as of `told_at`; what it does meanwhile it tells when it is
    back."""

    cluster: str
    state: str
    silent: bool
    # Since it was last heard of; None: not since this replica began.
    heard_s: float | None = None
    # When its newest figures came, by the clock here; None: it has told none.
    told_at: float | None = None
    # Its days up to this one are closed and here.
    closed_day: str = ""
    # The epoch of its store: it grows with each restore from a backup.
    incarnation: int = 0
