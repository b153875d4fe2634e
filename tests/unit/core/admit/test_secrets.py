"""How a job may declare secrets: one use each, and accounts only to the registry that its image is from."""

import pytest

from ares.core.admit.secrets import declared
from ares.model.job import Image, JobSpec
from ares.model.secret import SecretRef


def refusal(*refs: SecretRef, image: str = "") -> str:
    spec = JobSpec(command=("x",), secrets=refs, image=Image(ref=image) if image else None)
    no = declared(spec)
    return "" if no is None else f"{no.code}: {no.message}; {no.fix}"


@pytest.mark.parametrize(
    ("image", "host"), [("docker://registry.lab:5000/a", "registry.lab:5000"), ("docker://python:3.12", "docker.io")]
)
def test_an_account_goes_with_an_image_of_its_registry(image: str, host: str) -> None:
    login = SecretRef(name="login", registry=host)
    assert refusal(login, image=image) == ""
    assert "registry's account" in refusal(login, SecretRef(name="other", registry=host), image=image)


def test_an_account_goes_to_no_other_registry() -> None:
    login = SecretRef(name="login", registry="registry.lab")
    assert "the job's image is from evil.test; write login:registry=evil.test" in refusal(
        login, image="docker://evil.test/a"
    )
    for image in ("", "dir:/srv/x"):
        assert "the job's image is from no registry" in refusal(login, image=image)


def test_a_secret_has_one_use() -> None:
    for ref in (
        SecretRef(name="a"),
        SecretRef(name="a", env="A", registry="h"),
        SecretRef(name="a", env="A", file="f"),
    ):
        assert refusal(ref).startswith("secret-target")
