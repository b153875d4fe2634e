"""Messages between the leader and the process that judges. Both are of one version: no message is ever stored."""

import msgspec

from ares.model.node import NodeInfo
from ares.model.profile import Profile, ShadowFigures, ShadowObjective, ShadowVerdict


class PastJob(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A job that has started: its specification and its record, as the store has them."""

    spec: msgspec.Raw
    state: msgspec.Raw


class ShadowQuestion(msgspec.Struct, frozen=True, gc=False):
    """Would the jobs have fared better under the other profile?"""

    base: Profile
    shadow: Profile
    objective: ShadowObjective
    # Jobs submitted from then on count, the others hold room.
    since: float
    now: float
    # How often the verdict may be wrong.
    chance: float
    nodes: tuple[NodeInfo, ...]
    jobs: tuple[PastJob, ...]


class ShadowAnswer(msgspec.Struct, frozen=True, gc=False):
    jobs: int
    others: int
    since: float
    until: float
    base: ShadowFigures
    shadow: ShadowFigures
    verdict: ShadowVerdict
    gain: float
    low: float | None = None
    high: float | None = None
    blocks: int = 0
    of: str = ""
