"""What a job may name as its image."""

import pytest

from ares.core.image.reference import DirectoryImage, ImageFlaw, RegistryImage, ShippedImage, parse

DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("docker://python", RegistryImage("docker.io", "library/python", "latest")),
        ("docker://python:3.12", RegistryImage("docker.io", "library/python", "3.12")),
        ("docker://team/app", RegistryImage("docker.io", "team/app", "latest")),
        ("docker://r.lab:5000/a/b/c:1.0", RegistryImage("r.lab:5000", "a/b/c", "1.0")),
        ("docker://localhost/app", RegistryImage("localhost", "app", "latest")),
        (f"docker://r.lab/app:1@{DIGEST}", RegistryImage("r.lab", "app", "1", DIGEST)),
        ("oci-archive:my app.tar", ShippedImage("oci-archive", "my app.tar")),
        ("docker-archive:/a/b", ShippedImage("docker-archive", "/a/b")),
        ("oci:layout", ShippedImage("oci", "layout")),
        ("dir:/srv/images/one/", DirectoryImage("/srv/images/one")),
    ],
)
def test_every_form(text: str, found: object) -> None:
    assert parse(text) == found


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("python", "is no image"), ("", "is no image"), ("https://r.lab/app", "is no image"),
        ("docker://", "no name"), ("docker://UPPER/app", "no name"), ("docker://r.lab/../etc", "no name"),
        ("docker://r.lab/app:a b", "no tag"), ("docker://r.lab/app@sha256:12", "no digest"),
        ("docker://user:pw@r.lab/app", "no digest"), ("docker://r.lab:99999999/app", "no host"),
        ("oci-archive:", "names no file"),
        ("dir:relative", "no directory"), ("dir:/a/../b", "no directory"), ("dir:/", "no directory"),
    ],
)  # fmt: skip
def test_what_is_none_says_why(text: str, why: str) -> None:
    with pytest.raises(ImageFlaw, match=why):
        parse(text)
