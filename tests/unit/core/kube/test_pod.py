"""Names, claims and manifests of pods."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from ares.core.kube.equipment import PodHelper, secret_manifest
from ares.core.kube.pod import (
    CLAIM,
    CLUSTER_LABEL,
    PodTerms,
    binding,
    claim_of,
    clean,
    manifest,
    node_name,
    pod_name,
    read_claim,
    same_attempt,
)
from ares.model.base import AttemptRef, Fence
from ares.model.job import Image, JobSpec
from ares.model.kube import ObjectMeta, Pod
from ares.model.link import Start
from ares.model.secret import Secret, SecretGiven
from ares.model.state import Placement

TERMS = PodTerms(namespace="ares", code="k1", image="plain")
REF = AttemptRef(job="abc", tenant="Team One", fence=Fence(epoch=1, counter=3))


def start(spec: JobSpec) -> Start:
    place = Placement(node="k1.n", incarnation=2, cpu_milli=500, memory_mib=64, gpus=(0, 1))
    return Start(ref=REF, attempt=1, placement=place, spec=spec)


@given(st.text(max_size=300))
def test_any_text_becomes_a_label(text: str) -> None:
    found = clean(text)
    assert len(found) <= 63
    assert not found or (found[0].isalnum() and found[-1].isalnum())


def test_texts_that_differ_never_become_one_name() -> None:
    assert len({clean(text) for text in ("a.b", "a-b", "A-b", "a_b", "a" * 70, "a" * 71)}) == 6
    assert pod_name(REF, 0) == "ares-abc-1-3-0"
    assert len(node_name("k1", "n" * 253)) == 128


def test_a_manifest_asks_for_what_the_job_was_placed_with() -> None:
    spec = JobSpec(command=("run", "$(HOME)"), env={"A": "$(B)"}, grace_s=0.0)
    made = manifest(claim_of(start(spec), "n", once=False), start(spec), {"A": "$(B)"}, TERMS)
    (container,) = made["spec"]["containers"]
    assert container["command"] == ["run", "$$(HOME)"]
    assert container["env"] == [{"name": "A", "value": "$$(B)"}]
    least = {"cpu": "500m", "memory": "64Mi", "nvidia.com/gpu": "2"}
    assert container["resources"] == {"requests": least, "limits": least}
    assert (made["spec"]["restartPolicy"], made["spec"]["schedulerName"]) == ("Never", "ares")
    assert made["metadata"]["finalizers"] == ["ares/collect"]
    named = manifest(claim_of(start(spec), "n", once=False), start(msgspec.structs.replace(
        spec, image=Image(ref="docker://host/name:tag"))), {}, TERMS)["spec"]["containers"][0]  # fmt: skip
    assert (named["image"], named["args"]) == ("host/name:tag", ["run", "$$(HOME)"])


def test_a_pod_is_an_attempts_own_only_by_its_whole_claim() -> None:
    spec = JobSpec(command=("true",))
    claim = claim_of(start(spec), "n", once=False)
    made = manifest(claim, start(spec), {}, TERMS)
    pod = msgspec.convert(made, Pod)
    assert read_claim(pod, "k1") == claim
    assert same_attempt(claim, read_claim(pod, "k1"))
    assert read_claim(pod, "k2") is None
    other = claim_of(start(JobSpec(command=("false",))), "n", once=False)
    assert not same_attempt(other, read_claim(pod, "k1"))
    meta = ObjectMeta(name="else", labels={CLUSTER_LABEL: "k1"}, annotations=pod.metadata.annotations)
    assert read_claim(Pod(metadata=meta), "k1") is None
    # What would name files of the agent, or nodes that are not of this cluster, is not believed.
    for lie in ({"kube_node": "../../n"}, {"kube_node": "N"}, {"node": "k1.other"}, {"node": "mine"}, {"rank": -1},
                {"ref": msgspec.structs.replace(REF, job="../../../etc/x")}, {"kube_node": "n" * 254}):  # fmt: skip
        told = msgspec.structs.replace(claim, **lie)
        there = ObjectMeta(
            name=pod_name(told.ref, told.rank), labels={CLUSTER_LABEL: "k1"},
            annotations={CLAIM: msgspec.json.encode(told).decode()},
        )  # fmt: skip
        assert read_claim(Pod(metadata=there), "k1") is None, lie
    bad = ObjectMeta(name=pod.metadata.name, labels={CLUSTER_LABEL: "k1"}, annotations={CLAIM: "{"})
    assert read_claim(Pod(metadata=bad), "k1") is None


def test_a_binding_compares_the_very_pod() -> None:
    claim = claim_of(start(JobSpec(command=("true",))), "n", once=False)
    pod = Pod(metadata=ObjectMeta(name="p", namespace="ares", uid="u", resource_version="7"))
    made = binding(pod, claim)
    assert (made["metadata"]["uid"], made["metadata"]["resourceVersion"]) == ("u", "7")
    assert made["target"]["name"] == "n"


def test_secrets_are_named_and_never_written_into_a_pod() -> None:
    given = (
        SecretGiven(name="a", version=1, value=Secret(b"hidden"), env="KEY"),
        SecretGiven(name="b", version=1, value=Secret(b"hidden"), file="token"),
    )
    asked = msgspec.structs.replace(start(JobSpec(command=("run",))), secrets=given)
    claim = claim_of(asked, "n", once=False)
    made = manifest(claim, asked, {}, TERMS)
    assert claim.secret
    assert b"hidden" not in msgspec.json.encode(made)
    (container,) = made["spec"]["containers"]
    assert container["env"][0]["valueFrom"] == {"secretKeyRef": {"name": "ares-abc-1-3-0", "key": "job.a"}}
    assert made["spec"]["volumes"][0]["secret"]["items"] == [{"key": "job.b", "path": "token"}]
    pod = Pod(metadata=ObjectMeta(name="ares-abc-1-3-0", namespace="ares", uid="u"))
    kept = secret_manifest(pod, asked, "", "")
    assert kept["metadata"]["ownerReferences"][0]["uid"] == "u"
    assert set(kept["data"]) == {"job.a", "job.b"}


def test_a_helper_comes_before_and_beside_the_job() -> None:
    terms = msgspec.structs.replace(TERMS, helper=PodHelper(image="ares", door="agent:8645"))
    asked = start(JobSpec(command=("run",), project="a" * 64))
    claim = claim_of(asked, "n", once=False, token="once")
    made = manifest(claim, asked, {}, terms)["spec"]
    assert (claim.secret, claim.project, "once" in claim.token_sha256) == (True, "a" * 64, False)
    assert [container["name"] for container in made["initContainers"]] == ["ares-stage"]
    assert [container["name"] for container in made["containers"]] == ["job", "ares-collect"]
    assert made["containers"][0]["workingDir"] == "/ares/work"
    # The job itself has neither the token nor the certificate.
    assert "env" not in made["containers"][0] or not made["containers"][0]["env"]
    assert "initContainers" not in manifest(claim_of(asked, "n", once=False), asked, {}, terms)["spec"]
