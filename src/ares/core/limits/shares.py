"""Shares of a server's time: what part of it each tenant has had lately."""

# How long a tenant counts as present.
_THERE_S = 1.0
# No debt lasts longer: what a tenant took while no other was present is forgiven.
_OWED_S = 2.0
# Below this many tenants nothing is swept.
_SWEEP_MIN = 1024


class TimeShares:
    """Each tenant has a share of the time, and may be ahead of it by a burst. A lone tenant may have all of it."""

    __slots__ = ("_burst_s", "_even_at", "_last", "_other", "_share", "_sweep_at")

    def __init__(self, share: float, burst_s: float) -> None:
        self._share = share
        self._burst_s = burst_s / share
        # When each tenant will have had no more than its share.
        self._even_at: dict[str, float] = {}
        self._sweep_at = _SWEEP_MIN
        # The latest two tenants that came, and when.
        self._last = self._other = ("", float("-inf"))

    def __len__(self) -> int:
        return len(self._even_at)

    def came(self, tenant: str, now: float) -> None:
        if tenant != self._last[0]:
            self._other = self._last
        self._last = (tenant, now)

    def took(self, tenant: str, seconds: float, now: float) -> None:
        """The server worked for the tenant so long."""
        even_at = max(now, self._even_at.get(tenant, now)) + seconds / self._share
        self._even_at[tenant] = min(even_at, now + self._burst_s + _OWED_S)
        if len(self._even_at) > self._sweep_at:
            self._even_at = {name: at for name, at in self._even_at.items() if at > now}
            self._sweep_at = max(_SWEEP_MIN, 2 * len(self._even_at))

    def wait_s(self, tenant: str, now: float) -> float:
        """How long the tenant has to leave the server to others; 0 when there are none."""
        ahead_s = self._even_at.get(tenant, now) - now - self._burst_s
        if ahead_s <= 0.0:
            return 0.0
        other = self._other if self._last[0] == tenant else self._last
        return 0.0 if now - other[1] >= _THERE_S else ahead_s
