"""GPUs that are given by claims."""

from typing import Any

import msgspec
import pytest

from ares.core.kube.devices import DeviceKey, device_claim, gpus_of, taken_by
from ares.model.kube import ObjectMeta, Pod, ResourceClaim, ResourceSlice

_DRIVER = "gpu.nvidia.com"
_POD = Pod(metadata=ObjectMeta(name="p", namespace="ares", uid="u", labels={"ares/cluster": "k1"}))


def device(name: str, uuid: str | None = None, **more: Any) -> dict[str, Any]:
    told = {} if uuid is None else {"uuid": {"string": uuid}}
    return {"name": name, "attributes": {**told, "productName": {"string": "H100"}, "index": {"int": 3}}, **more}


def sliced(*devices: dict[str, Any], driver: str = _DRIVER, **pool: Any) -> ResourceSlice:
    spec = {"driver": driver, "nodeName": "n", "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1, **pool}}
    return msgspec.convert({"spec": {**spec, "devices": devices}}, ResourceSlice)


def test_devices_of_gpu_drivers_are_gpus_in_an_order_that_stays() -> None:
    memory = {"capacity": {"memory": {"value": "80Gi"}}}
    found = gpus_of([sliced(device("b", "GPU-2"), device("a", "GPU-1", **memory)), sliced(device("x"), driver="nic")])
    assert [(each.gpu.index, each.uuid, each.gpu.memory_mib) for each in found] == [
        (0, "GPU-1", 80 << 10), (1, "GPU-2", 0),
    ]  # fmt: skip
    assert found[0].gpu.model == "H100"


def test_parts_of_gpus_and_devices_that_their_driver_advises_against_are_left_out() -> None:
    part = device("mig", "MIG-1")
    part["attributes"]["type"] = {"string": "mig"}
    sick = device("sick", "GPU-3", taints=[{"key": "k", "effect": "NoSchedule"}])
    assert gpus_of([sliced(part, sick)]) == ()


def test_a_pool_counts_by_its_newest_generation_when_all_of_it_is_there() -> None:
    old, new = sliced(device("old")), sliced(device("new"), generation=2, resourceSliceCount=2)
    assert gpus_of([old, new]) == ()
    other = sliced(device("other"), generation=2, resourceSliceCount=2)
    assert [each.key.device for each in gpus_of([old, new, other])] == ["new", "other"]


def test_a_claim_asks_for_the_very_devices() -> None:
    made = device_claim(_POD, gpus_of([sliced(device("a", "GPU-1"), device("b", "GPU-2"))]))
    assert made["metadata"]["ownerReferences"][0]["uid"] == "u"
    asked = [request["exactly"]["selectors"][0]["cel"]["expression"] for request in made["spec"]["devices"]["requests"]]
    known = f'device.attributes["{_DRIVER}"]'
    assert asked == [f'"uuid" in {known} && {known}.uuid == "GPU-{number}"' for number in (1, 2)]


@pytest.mark.parametrize("uuid", ['x" || true || "', "x\\", "", "a" * 65, "x\n", None])
def test_what_a_driver_writes_is_never_a_part_of_an_expression(uuid: str | None) -> None:
    """Devices that cannot be told apart are asked for by their number."""
    (gpu, *_) = found = gpus_of([sliced(device("a", uuid), device("b", uuid))])
    assert (gpu.uuid, gpu.gpu.uuid) == ("", "n/a")
    (request,) = device_claim(_POD, found)["spec"]["devices"]["requests"]
    assert (request["exactly"]["count"], "selectors" in request["exactly"]) == (2, False)


def test_more_devices_than_a_claim_can_name_are_asked_for_by_their_number() -> None:
    found = gpus_of([sliced(*(device(f"d{number:02}", f"GPU-{number}") for number in range(33)))])
    (request,) = device_claim(_POD, found)["spec"]["devices"]["requests"]
    assert request["exactly"]["count"] == 33


def test_a_claim_has_what_it_was_given() -> None:
    results = [{"driver": _DRIVER, "pool": "n", "device": "a", "request": "gpu"}]
    claim = msgspec.convert({"status": {"allocation": {"devices": {"results": results}}}}, ResourceClaim)
    assert taken_by(claim) == {DeviceKey(_DRIVER, "n", "a")}
    assert taken_by(ResourceClaim()) == frozenset()
