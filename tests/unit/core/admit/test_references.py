"""Input references: what is data that may be named, and what leads where no job's data is."""

import pytest

from ares.core.admit.admission import decide
from ares.core.net import literal
from ares.core.refusal import Admission, Refusal
from ares.model.job import JobSpec

GOOD = (
    "imagenet", "imagenet@v3", "team/imagenet/part-0.tar", f"sha256:{'0' * 64}", f"imagenet@sha256:{'0' * 64}",
    "s3://bucket/key", "s3://bucket/a..b/c%20d", "gs://bucket", "https://data.example.org/a?version=2", "https://8.8.8.8/x",
    "ares://datasets/imagenet@sha256:ab", "https://[2606:4700::1111]/x", "https://data.example.org:8443/a",
)  # fmt: skip
BAD = (
    "file:///etc/passwd", "file:/etc/passwd", "/etc/passwd", "//evil.example/x", "gopher://example.org/", "data:,x",
    "http://example.org/", "FTP://example.org/", "https://169.254.169.254/latest", "https://127.0.0.1/", "https://127.1/",
    "https://2130706433/", "https://0x7f000001/", "https://0177.0.0.1/", "https://[::1]/", "https://[::ffff:127.0.0.1]/",
    "https://10.0.0.8/", "https://127.0.0.1./", "https://localhost/", "https://db.localhost:80/",
    "https://metadata.google.internal/", "https://user:pass@example.org/", "s3://169.254.169.254/key", "https:///x",
    "https://%31%32%37.0.0.1/", "https://example.org:99999/", "https://[::1", "s3://bucket/../other", "a/../b", "..",
    "s3://bucket/%2e%2e/other", "s3://bucket/a%2fb", "a\\b", "https://exa\\mple.org/", "$(id)", "-o",
)  # fmt: skip


@pytest.mark.parametrize("ref", GOOD)
def test_taken(ref: str) -> None:
    assert decide(JobSpec(command=("x",), input_refs=(ref,))) == Admission()


@pytest.mark.parametrize("ref", BAD)
def test_refused_with_its_place(ref: str) -> None:
    answer = decide(JobSpec(command=("x",), input_refs=("fine", ref)))
    assert isinstance(answer, Refusal)
    assert (answer.code, answer.reason) == ("input-ref", "ssrf")
    assert "inputRefs[1]" in answer.message


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.1", "127.0.0.1"), ("2130706433", "127.0.0.1"), ("0x7f.1", "127.0.0.1"), ("0177.0.0.1", "127.0.0.1"),
        ("1.2.3", "1.2.0.3"), ("::1", "::1"), ("8.8.8.8.", "8.8.8.8"), ("256.1", None), ("1.2.3.4.5", None),
        ("4294967296", None), ("example", None), ("1e3", None), ("09", None), ("", None), ("1..2", None),
    ],
)  # fmt: skip
def test_every_form_of_an_address(host: str, address: str | None) -> None:
    assert literal(host) == address
