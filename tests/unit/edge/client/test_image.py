"""An image of this machine on its way: every form becomes the same files, and what did not change is not read again."""

import json
from pathlib import Path

import msgspec
import pytest

from ares.api.projects import ProjectManifest
from ares.core.image.reference import ShippedImage
from ares.edge.client.ask import job_spec
from ares.edge.client.errors import InvalidSpec
from ares.edge.client.project.image import known_manifest, packed_image, remember_manifest
from ares.model.job import Image as ImageWish
from tests.images import Image, busybox, link, member, packed


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def files_of(image: ShippedImage) -> dict[str, int]:
    with packed_image(image, 1 << 40, None, lambda _: None) as found:
        manifest = msgspec.json.decode(found.manifest, type=ProjectManifest)
        # All of it can be sent.
        for some in found.requests(found.places):
            assert found.body(some)
    return {entry.path: entry.size for entry in manifest.entries if entry.kind == "file"}


def test_archives_and_directories_become_the_same_files(tmp_path: Path) -> None:
    image = Image([busybox(), [member("x", b"x")]])
    wanted = {name: len(data) for name, data in image.files().items()}
    archive = image.oci_archive(tmp_path / "a.tar")
    (image.layout(tmp_path / "layout") / "blobs/sha256/stranger").write_text("of another image")
    assert files_of(ShippedImage("oci-archive", str(archive))) == wanted
    assert files_of(ShippedImage("oci", str(tmp_path / "layout"))) == {
        name: size for name, size in wanted.items() if name != "oci-layout"
    }
    saved = files_of(ShippedImage("docker-archive", str(image.docker_archive(tmp_path / "d.tar"))))
    assert set(saved.values()) >= {len(layer) for layer in image.plain} | {len(image.config)}
    assert {"index.json", "oci-layout"} <= saved.keys()


def test_a_layer_that_docker_saved_as_a_link_is_found(tmp_path: Path) -> None:
    image = Image([[member("x", b"x")]])
    saved = json.dumps([{"Config": "c.json", "Layers": ["a/layer.tar", "b/layer.tar"]}]).encode()
    files = [
        member("c.json", image.config),
        member("a/layer.tar", image.plain[0]),
        link("b/layer.tar", "../a/layer.tar"),
    ]
    (tmp_path / "d.tar").write_bytes(packed([*files, member("manifest.json", saved)]))
    assert len(files_of(ShippedImage("docker-archive", str(tmp_path / "d.tar")))) == 5


def test_an_archive_that_did_not_change_is_known(tmp_path: Path) -> None:
    image = ShippedImage("oci-archive", str(Image([[member("x")]]).oci_archive(tmp_path / "a.tar")))
    assert known_manifest(image) is None
    remember_manifest(image, b"manifest")
    assert known_manifest(image) == b"manifest"
    Image([[member("y", b"more")]]).oci_archive(tmp_path / "a.tar")
    assert known_manifest(image) is None


@pytest.mark.parametrize(
    ("kind", "content", "why"),
    [
        ("oci-archive", None, "cannot be read: No such file"),
        ("oci-archive", b"no archive", "cannot be read"),
        ("oci-archive", packed([member("hello", b"x")]), "neither index.json nor manifest.json"),
        ("oci-archive", packed([member("index.json", b"{}")]), "is no image"),
        ("docker-archive", packed([member("manifest.json", b"[]")]), "several images, or none"),
        ("docker-archive", packed([member("manifest.json", b'[{"Config": "no", "Layers": []}]')]), "it has no no"),
        ("oci", b"", "is no directory here"),
    ],
)
def test_what_is_no_image_says_so(tmp_path: Path, kind: str, content: bytes | None, why: str) -> None:
    path = tmp_path / "it"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InvalidSpec, match=why):
        files_of(ShippedImage(kind, str(path)))  # pyright: ignore[reportArgumentType]


def test_how_people_write_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.tar").touch()
    assert job_spec(image="python:3.12").image == ImageWish(ref="docker://python:3.12")
    assert job_spec(image="python:3.12").command == ()
    assert job_spec(image={"ref": "dir:/srv/x"}, command=["a"]).image == ImageWish(ref="dir:/srv/x")
    for path in ("app.tar", "./none.tar", "/srv/x"):
        with pytest.raises(InvalidSpec, match="is a path"):
            job_spec(image=path)
    with pytest.raises(InvalidSpec, match="no command is given"):
        job_spec(name="x")
