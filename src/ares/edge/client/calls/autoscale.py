"""Requests about pools that grow and shrink by themselves, and what they are answered."""

from ares.api.pools import ScalingPlan, ScalingView
from ares.edge.client.calls.calls import Call, Request, part


def pools() -> Call[tuple[ScalingView, ...]]:
    return Call(Request("GET", "/v1/autoscale"), tuple[ScalingView, ...], "pools")


def pool(name: str) -> Call[ScalingView]:
    return Call(Request("GET", f"/v1/autoscale/pools/{part(name)}"), ScalingView)


def plan() -> Call[ScalingPlan]:
    return Call(Request("GET", "/v1/autoscale/plan"), ScalingPlan)


def switch(name: str, *, enabled: bool) -> Call[ScalingView]:
    word = "enable" if enabled else "disable"
    return Call(Request("POST", f"/v1/autoscale/pools/{part(name)}/{word}"), ScalingView)
