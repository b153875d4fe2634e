"""Inputs that can be staged are taken, others refused in words; references to datasets are read strictly."""

import pytest

from ares.core.admit.admission import decide
from ares.core.dataset import DatasetFlaw, DatasetRef, parse_ref, variable
from ares.core.refusal import Admission, Refusal
from ares.model.job import DataInput, InputMode, JobSpec, projects_of, staged_of

SHA = "5f" * 32
FILMS = "ares://datasets/films"


@pytest.mark.parametrize("text", [FILMS, f"{FILMS}@sha256:{SHA}", "ares://datasets/a.b-c_d"])
def test_a_reference_is_read_and_written_back(text: str) -> None:
    assert str(parse_ref(text)) == text
    assert decide(JobSpec(command=("x",), inputs=(DataInput(name="data", from_=text),))) == Admission()


@pytest.mark.parametrize(
    "text",
    [
        "films", "s3://bucket/films", "https://169.254.169.254/films", "file:///etc/passwd", "ares://datasets/",
        "ares://datasets/../films", "ares://datasets/a/b", "ares://datasets/Films", "ares://datasets/films@",
        f"{FILMS}@{SHA}", f"{FILMS}@sha256:{SHA[:-1]}", f"{FILMS}@sha256:{SHA.upper()}", f"{FILMS}@sha256:{SHA}\n",
    ],
)  # fmt: skip
def test_what_is_no_dataset_is_refused(text: str) -> None:
    with pytest.raises(DatasetFlaw):
        parse_ref(text)
    no = decide(JobSpec(command=("x",), inputs=(DataInput(name="data", from_=text),)))
    assert isinstance(no, Refusal)
    assert (no.code, no.path) == ("input-invalid", "$.spec.inputs[0]")
    assert no.fix


@pytest.mark.parametrize(
    ("name", "mode", "words"),
    [
        ("../x", "cache", "cannot name a directory"), ("a b", "copy", "cannot name a directory"),
        ("data", "stream", "not read over the network"), ("OTHER", "cache", "would both be in $ARES_INPUT_OTHER"),
    ],
)  # fmt: skip
def test_what_cannot_be_staged_is_refused(name: str, mode: InputMode, words: str) -> None:
    inputs = (DataInput(name="other", from_=FILMS), DataInput(name=name, from_=FILMS, mode=mode))
    no = decide(JobSpec(command=("x",), inputs=inputs))
    assert isinstance(no, Refusal)
    assert (no.code, words in no.message) == ("input-invalid", True), no


def test_an_input_without_a_dataset_is_a_hint_only() -> None:
    spec = JobSpec(command=("x",), inputs=(DataInput(name="s3://x/any thing"[5:], size_mib=5), DataInput(name="y")))
    assert decide(spec) == Admission()
    assert (staged_of(spec), projects_of(spec)) == ({}, ())
    moded = decide(JobSpec(command=("x",), inputs=(DataInput(name="y", mode="copy"),)))
    assert isinstance(moded, Refusal)


def test_a_version_counts_among_the_files_of_a_job() -> None:
    inputs = (DataInput(name="a", from_=f"{FILMS}@sha256:{SHA}"), DataInput(name="b", from_=FILMS))
    spec = JobSpec(command=("x",), project="0" * 64, inputs=inputs)
    assert staged_of(spec) == {"a": SHA}
    assert projects_of(spec) == ("0" * 64, SHA)
    assert (variable("my-data.v2"), str(DatasetRef("x"))) == ("ARES_INPUT_MY_DATA_V2", "ares://datasets/x")
