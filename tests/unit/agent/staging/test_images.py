"""Images on a node: unpacked once per digest and tenant, kept within bounds, and harmless whatever they hold."""

import asyncio
import json
import os
import shutil
import stat
import tarfile
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Self

import pytest
from msgspec.structs import replace

from ares.adapters.clocks import SystemClock
from ares.agent.staging.image_store import ImageLimits, ImageStore, ImageTerms, LayerFiles
from ares.agent.staging.images import Images, StagedImage
from ares.agent.staging.stager import StagingFailed, in_thread
from ares.agent.staging.unpack import NotWanted
from ares.agent.transfer.transfers import Transfers
from ares.core.image.layout import ImageConfig
from ares.model.job import Image as ImageWish
from ares.model.job import JobSpec
from ares.model.link import AttemptRef, Start
from ares.model.secret import RegistryAccount
from ares.model.state import Fence, Placement
from ares.ports.executor import Launch
from ares.ports.link import RegistryRefused
from tests.images import ARCHITECTURE, Image, Member, Packing, folder, link, member, packed

# A user of no one, as tenants have.
UID = 1_879_048_191 if os.geteuid() == 0 else None


class OneRegistry:
    """Stands in for a registry in memory. A real one: tests/e2e/test_images.py."""

    def __init__(self, image: Image) -> None:
        self.image = image
        self.saved = list[str]()

    def signed_in(self, account: RegistryAccount) -> Self:
        raise AssertionError("no test here has an account")

    def manifest(self, host: str, name: str, version: str) -> bytes:
        if version == "latest":
            return self.image.index
        if version not in self.image.blobs:
            raise RegistryRefused("it has no such image")
        return self.image.blobs[version]

    def save(self, host: str, name: str, digest: str, size: int, path: Path, came: Callable[[int], bool]) -> None:
        self.saved.append(digest)
        path.write_bytes(self.image.blobs[digest])


def made(store: ImageStore, registry: OneRegistry, terms: ImageTerms | None = None) -> Images:
    return Images(store, None, registry, terms or ImageTerms(), Transfers(SystemClock()))


def start_of(ref: str = "docker://r.test/app", tenant: str = "t") -> Start:
    return Start(
        ref=AttemptRef(job="j1", tenant=tenant, fence=Fence(epoch=1, counter=1)), attempt=1,
        placement=Placement(node="n1", incarnation=1, cpu_milli=100, memory_mib=10),
        spec=JobSpec(command=("true",), image=ImageWish(ref=ref)),
    )  # fmt: skip


def node(folder: Path, image: Image, limits: ImageLimits | None = None, roots: tuple[str, ...] = ()) -> Images:
    store = ImageStore(folder / "cache", limits or ImageLimits())
    store.open()
    return made(store, OneRegistry(image), ImageTerms(roots, (str(folder / "cache"),)))


async def staged(images: Images, ref: str = "docker://r.test/app", tenant: str = "t") -> StagedImage:
    return await images.stage(start_of(ref, tenant), "/layer", UID, lambda: True)


async def root_of(tmp_path: Path, *layers: Iterable[Member] | bytes, packing: Packing = "gzip") -> Path:
    return Path((await staged(node(tmp_path, Image(layers, packing=packing)))).root)


async def flaw_of(
    tmp_path: Path, *layers: Iterable[Member] | bytes, limits: ImageLimits | None = None, packing: Packing = "gzip"
) -> str:
    """Why it is refused. Nothing of it is left."""
    images = node(tmp_path, Image(layers, packing=packing), limits)
    with pytest.raises(StagingFailed) as failed:
        await staged(images)
    assert [str(path) for path in (tmp_path / "cache").glob("*/images/*")] == []
    return str(failed.value)


# ---- what an image is


@pytest.mark.parametrize("packing", ["gzip", "zstd", ""])
async def test_layers_lie_over_each_other(tmp_path: Path, packing: Packing) -> None:
    root = await root_of(
        tmp_path,
        [folder("a"), member("a/one", b"1"), member("a/two", b"2"), folder("b"), member("b/x", b"x"), folder("c/d"),
         member("c/d/e", b"e")],
        [member("a/.wh.one"), folder("b"), member("b/y", b"y"), member("b/.wh..wh..opq"), member("c/.wh.d"),
         member("c/.wh..wh.plnk")],
        [member("a/two", b"new", mode=0o755), member("deep/er/file", b"f")],
        packing=packing,
    )  # fmt: skip
    files = {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    assert files == {"a/two": b"new", "b/y": b"y", "deep/er/file": b"f"}
    assert stat.S_IMODE((root / "a/two").stat().st_mode) == 0o755


async def test_every_file_is_the_tenants_and_open_to_it(tmp_path: Path) -> None:
    root = await root_of(
        tmp_path,
        [folder("closed", 0o000), member("closed/secret", b"s", mode=0o000), folder("tmp", 0o1777)],
        [member("closed/more", b"m"), member("twice", kind=tarfile.LNKTYPE, linkname="closed/secret")],
    )
    assert stat.S_IMODE((root / "closed").stat().st_mode) == 0o700
    assert stat.S_IMODE((root / "tmp").stat().st_mode) == 0o1777
    assert (root / "twice").stat().st_ino == (root / "closed/secret").stat().st_ino
    owners = {path.lstat().st_uid for path in (root, *root.rglob("*"))}
    assert owners == {os.geteuid() if UID is None else UID}


async def test_it_runs_as_its_configuration_says(tmp_path: Path) -> None:
    users = member("etc/passwd", b"root:x:0:0::/root:/bin/sh\nann:x:7:7::/home/ann:/bin/sh\n")
    config = {
        "Entrypoint": ["/run"],
        "Cmd": ["own"],
        "Env": ["PATH=/p", "A=1", "B=2"],
        "WorkingDir": "/w",
        "User": "ann:staff",
    }
    image = await staged(node(tmp_path, Image([[folder("etc"), users]], config)))
    given = {"PATH": "/usr/bin", "HOME": "/work", "TMPDIR": "/work", "B": "job", "ARES_JOB_ID": "j"}
    launch = Launch(argv=(), env=given, cwd="/work", log_path="", memory_mib=1, cpu_milli=1, file_bytes_max=1,
                    processes_max=1, open_files_max=1)  # fmt: skip

    def dressed(**spec: Any) -> Launch:
        whole: dict[str, Any] = {"command": (), "env": {"B": "job"}, **spec}
        return image.dress(replace(launch, argv=whole["command"]), JobSpec(**whole))

    own = dressed()
    assert (own.argv, own.cwd) == (("/run", "own"), "/w")
    assert own.env == {"PATH": "/p", "HOME": "/home/ann", "A": "1", "B": "job", "ARES_JOB_ID": "j"}
    assert dressed(command=("mine", "x")).argv == ("/run", "mine", "x")
    # The job's own files come before the image's directory.
    assert dressed(project="0" * 64).cwd == "/work"
    assert own.image is not None
    assert (own.image.home, own.image.workdir) == ("/home/ann", "/w")


async def test_it_is_unpacked_once_for_attempts_that_start_together(tmp_path: Path) -> None:
    images = node(tmp_path, Image([[member("f", b"f")]]))
    first, *others = await asyncio.gather(*(staged(images) for _ in range(5)))
    assert {other.root for other in others} == {first.root}
    registry = images._registry  # pyright: ignore[reportPrivateUsage]
    assert isinstance(registry, OneRegistry)
    # Its configuration and its only layer.
    assert len(registry.saved) == 2
    assert [path.name for path in (tmp_path / "cache/t/images").iterdir()] == [Path(first.root).parent.name]


async def test_one_that_is_here_is_not_asked_for_again_by_its_digest(tmp_path: Path) -> None:
    image = Image([[member("f", b"f")]])
    first = await staged(node(tmp_path, image))
    away = node(tmp_path, Image([[member("other")]]))
    ref = f"docker://r.test/app@{image.digest}"
    assert (await staged(away, ref)).root == first.root
    with pytest.raises(StagingFailed, match="no such image"):
        await staged(away, ref, tenant="other")


async def test_tenants_share_nothing(tmp_path: Path) -> None:
    images = node(tmp_path, Image([[member("f", b"f")]]))
    assert (await staged(images)).root != (await staged(images, tenant="other")).root


class SilentRegistry(OneRegistry):
    """Answers nobody until it is let go."""

    def __init__(self, image: Image) -> None:
        super().__init__(image)
        self.asked = 0
        self.go = threading.Event()

    def manifest(self, host: str, name: str, version: str) -> bytes:
        self.asked += 1
        self.go.wait(60)
        return super().manifest(host, name, version)


async def test_a_silent_registry_takes_no_thread_of_others(tmp_path: Path) -> None:
    """Forty jobs of a tenant name it; the threads that all tenants share are free."""
    registry = SilentRegistry(Image([[member("f", b"f")]]))
    images = made(ImageStore(tmp_path / "cache", ImageLimits()), registry)
    asking = [asyncio.create_task(staged(images)) for _ in range(40)]
    other = asyncio.create_task(staged(images, tenant="other"))
    try:
        while registry.asked < 5:
            await asyncio.sleep(0.01)
        assert await in_thread(lambda: "free") == "free"
        # Four of the one tenant, and the other's.
        assert registry.asked == 5
    finally:
        registry.go.set()
        await asyncio.gather(*asking, other)


async def test_huge_images_of_a_tenant_hold_up_no_other(tmp_path: Path) -> None:
    """A tenant unpacks as many as it may, from pipes that never end; the image of another is unpacked meanwhile."""
    store = ImageStore(tmp_path / "cache", ImageLimits())
    images = made(store, OneRegistry(Image([[member("f", b"f")]])))
    seen, go_on = set[str](), True

    def unpacking(digit: str) -> "asyncio.Task[object]":
        pipe = tmp_path / digit
        os.mkfifo(pipe, 0o666)

        def wanted() -> bool:
            seen.add(digit)
            return go_on

        layer = LayerFiles((str(pipe),), f"sha256:{digit * 64}", 1 << 30, f"sha256:{digit * 64}")
        return asyncio.create_task(store.add("t", f"sha256:{digit * 64}", ImageConfig(), (layer,), UID, wanted))

    huge = [unpacking(digit) for digit in "123"]
    try:
        while len(seen) < 2:
            await asyncio.sleep(0.01)
        assert (await staged(images, tenant="other")).root
        # The third of the tenant waits for one of its own.
        assert len(seen) == 2
    finally:
        go_on = False
        assert {type(end) for end in await asyncio.gather(*huge, return_exceptions=True)} == {NotWanted}


async def test_a_damaged_one_is_fetched_again(tmp_path: Path) -> None:
    image = Image([[member("f", b"f"), member("g", b"g")]])
    root = Path((await staged(node(tmp_path, image))).root)
    assert Path((await staged(node(tmp_path, image))).root) == root
    for harm in ("f", "g"):
        (root / harm).unlink() if harm == "f" else (root / harm).write_bytes(b"changed")
        again = node(tmp_path, image)
        assert Path((await staged(again)).root) == root
        assert ((root / "f").read_bytes(), (root / "g").read_bytes()) == (b"f", b"g")
    # What an agent that was killed left half done.
    (root.parent / "image.json").unlink()
    draft = root.parent.with_name(".draft-1-x")
    shutil.copytree(root.parent, draft)
    assert Path((await staged(node(tmp_path, image))).root) == root
    assert not draft.exists()


async def test_the_longest_unused_goes_first_and_what_is_in_use_stays(tmp_path: Path) -> None:
    size = 1 << 20
    names = [member(f"{letter}", os.urandom(size)) for letter in "abc"]
    images = [Image([[name]]) for name in names]
    store = ImageStore(tmp_path / "cache", ImageLimits(bytes_max=int(2.5 * size)))
    store.open()
    kept = list[StagedImage]()
    for image in images[:2]:
        kept.append(await made(store, OneRegistry(image)).stage(start_of(), "/l", UID, lambda: True))
    kept[1].release()
    await made(store, OneRegistry(images[2])).stage(start_of(), "/l", UID, lambda: True)
    left = {str(path) for path in (tmp_path / "cache/t/images").glob("*/root")}
    assert [image.root in left for image in kept] == [True, False]


async def test_an_attempt_that_is_to_end_stops_the_unpacking(tmp_path: Path) -> None:
    images = node(tmp_path, Image([[member("f", bytes(64 << 20))]], packing=""))
    with pytest.raises(NotWanted):
        await images.stage(start_of(), "/layer", UID, iter([True] + [False] * 1000).__next__)
    assert list((tmp_path / "cache/t/images").iterdir()) == []


# ---- images that mean harm


@pytest.mark.parametrize("name", ["../out", "a/../../out", "/../out", "a/../../../../../../../../tmp/out"])
async def test_a_path_that_climbs_is_refused(tmp_path: Path, name: str) -> None:
    assert "leads out of the image" in await flaw_of(tmp_path, [member(name, b"x")])
    assert not (tmp_path / "out").exists()


async def test_links_lead_nowhere_but_into_the_image(tmp_path: Path) -> None:
    """Written through, links stay in the image: what they name there is made there."""
    outside = tmp_path / "outside"
    outside.mkdir()
    os.chmod(outside, 0o777)
    root = await root_of(
        tmp_path,
        [link("abs", str(outside)), link("up", "../../../../../../../.." + str(outside)), folder(str(outside)[1:])],
        [member("abs/one", b"1"), member("up/two", b"2")],
    )
    assert list(outside.iterdir()) == []
    assert sorted(path.name for path in (root / str(outside)[1:]).iterdir()) == ["one", "two"]


async def test_a_file_that_replaces_a_link_is_not_written_through_it(tmp_path: Path) -> None:
    (tmp_path / "passwd").write_text("safe")
    root = await root_of(tmp_path, [link("etc", str(tmp_path / "passwd"))], [member("etc", b"new")])
    assert (tmp_path / "passwd").read_text() == "safe"
    assert (root / "etc").read_bytes() == b"new"
    assert not (root / "etc").is_symlink()


@pytest.mark.parametrize("target", ["../../../etc/passwd", "missing"])
async def test_a_second_name_for_a_file_outside_is_refused(tmp_path: Path, target: str) -> None:
    why = await flaw_of(tmp_path, [member("x", kind=tarfile.LNKTYPE, linkname=target)])
    assert "leads out of the image" in why or "No such file" in why


async def test_devices_and_bits_that_change_users_do_not_come_along(tmp_path: Path) -> None:
    disk = member("dev/sda", kind=tarfile.BLKTYPE, mode=0o666, devmajor=8, devminor=0)
    null = member("dev/null", kind=tarfile.CHRTYPE, mode=0o666, devmajor=1, devminor=3)
    root = await root_of(tmp_path, [folder("dev"), disk, null, member("su", b"#!", mode=0o6755), folder("g", 0o2755)])
    assert list((root / "dev").iterdir()) == []
    assert stat.S_IMODE((root / "su").stat().st_mode) == 0o755
    assert stat.S_IMODE((root / "g").stat().st_mode) == 0o755


@pytest.mark.parametrize("packing", ["gzip", "zstd"])
async def test_bombs_are_stopped(tmp_path: Path, packing: Packing) -> None:
    limits = ImageLimits(image_bytes_max=4 << 20, image_files_max=50)
    zeros = [member("zeros", bytes(5 << 20))]
    assert "4,194,304 bytes that are taken" in await flaw_of(tmp_path, zeros, limits=limits, packing=packing)
    many = [member(f"{number}") for number in range(60)]
    assert "more than the 50 files" in await flaw_of(tmp_path, many, limits=limits)
    lies = packed([member("f", b"x" * 10)])
    # A header that says there is more than follows.
    assert "no archive that can be read" in await flaw_of(tmp_path, lies[:512], limits=limits)
    deep = [member("/".join("d" * 300), b"")]
    assert "not taken" in await flaw_of(tmp_path, deep, limits=limits)


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE])
async def test_a_header_that_wants_all_memory_is_refused(tmp_path: Path, kind: bytes) -> None:
    """A name of two gigabytes, before any of it is read."""
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = kind, 2 << 30
    assert "2,147,483,648 bytes" in await flaw_of(tmp_path, info.tobuf(tarfile.GNU_FORMAT) + bytes(1 << 20))


async def test_a_user_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StagingFailed, match="user 'nobody-here', whom it does not have"):
        await staged(node(tmp_path, Image([[member("f")]], {"User": "nobody-here"})))


async def test_an_image_without_a_command_says_so(tmp_path: Path) -> None:
    image = await staged(node(tmp_path, Image([[member("f")]])))
    launch = Launch(argv=(), env={}, cwd="/", log_path="", memory_mib=1, cpu_milli=1, file_bytes_max=1,
                    processes_max=1, open_files_max=1)  # fmt: skip
    with pytest.raises(StagingFailed, match="names no command, and the image has none"):
        image.dress(launch, JobSpec(command=()))


async def test_another_machines_image_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StagingFailed, match=f"nothing for linux/{ARCHITECTURE}, only for linux/s390x"):
        await staged(node(tmp_path, Image([[member("f")]], architecture="s390x")))


@pytest.mark.parametrize("what", ["manifest", "config", "layer"])
async def test_bytes_with_another_digest_are_not_used(tmp_path: Path, what: str) -> None:
    image = Image([[member("f", b"f" * 1000)]])
    manifest = json.loads(image.manifest)
    digest = {
        "manifest": image.digest,
        "config": manifest["config"]["digest"],
        "layer": manifest["layers"][0]["digest"],
    }
    image.blobs[digest[what]] = image.blobs[digest[what]][:-1] + b" "
    with pytest.raises(StagingFailed, match=r"came (as|with)"):
        await staged(node(tmp_path, image))


async def test_a_layer_that_unpacks_to_something_else_is_refused(tmp_path: Path) -> None:
    image, other = Image([[member("f", b"one")]]), Image([[member("f", b"two")]])
    mine, theirs = json.loads(image.manifest), json.loads(other.manifest)
    mine["layers"] = theirs["layers"]
    raw = json.dumps(mine).encode()
    lying = Image([[member("f")]])
    lying.blobs = {**image.blobs, **other.blobs}
    lying.index = raw
    with pytest.raises(StagingFailed, match="when it is unpacked, and came as"):
        await staged(node(tmp_path, lying))


async def test_an_unpacked_directory_must_be_the_operators(tmp_path: Path) -> None:
    allowed = tmp_path / "roots"
    (allowed / "one").mkdir(parents=True)
    (tmp_path / "cache/x").mkdir(parents=True)
    (allowed / "out").symlink_to(tmp_path)
    images = node(tmp_path, Image([[member("f")]]), roots=(str(allowed), str(tmp_path / "cache")))
    assert (await staged(images, f"dir:{allowed}/one")).root == str(allowed / "one")
    for path, why in (("/etc", "node.images.roots"), (f"{allowed}/out", "node.images.roots"),
                      (f"{allowed}/none", "no such directory"), (f"{tmp_path}/cache/x", "Ares itself")):  # fmt: skip
        with pytest.raises(StagingFailed, match=why):
            await staged(images, f"dir:{path}")
