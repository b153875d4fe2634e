"""Jobs in container images, on real processes: the command line, a server, a node, and a real registry."""

import base64
import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.images import ACCOUNT, Image, LocalRegistry, busybox, member
from tests.platform import Platform, Run, eventually

CONFIG = {
    "Entrypoint": ["/bin/sh", "-c"], "Cmd": ["echo by its own command $GREETING; pwd"],
    "Env": ["PATH=/bin", "GREETING=hello", "OMP_NUM_THREADS=7"], "WorkingDir": "/srv/app", "User": "worker",
}  # fmt: skip


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalRegistry]:
    with LocalRegistry(tmp_path_factory.mktemp("registry")) as registry:
        yield registry


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalRegistry]:
    """A registry that wants an account of its readers."""
    with LocalRegistry(tmp_path_factory.mktemp("closed"), closed=True) as registry:
        yield registry


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The operator's directory of unpacked images."""
    return tmp_path_factory.mktemp("roots")


@pytest.fixture(scope="module")
def site(
    tmp_path_factory: pytest.TempPathFactory, registry: LocalRegistry, closed: LocalRegistry, roots: Path
) -> Iterator[Platform]:
    with Platform(tmp_path_factory.mktemp("site"), lend=False, warm=True) as platform:
        platform.server()
        allowed = f"--set=node.images.registries={registry.url},{closed.url}"
        platform.agent("node-a", flags=[allowed, f"--set=node.images.roots={roots}"])
        yield platform


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Image(config=CONFIG).oci_archive(tmp_path_factory.mktemp("archive") / "app.tar")


def run(site: Platform, *arguments: str, at: Path | None = None) -> Run:
    return site.cli("submit", "--follow", "--memory", "64M", "--retries", "0", *arguments, at=at)


def test_an_archive_here_runs_there_as_docker_would_run_it(site: Platform, archive: Path) -> None:
    first = run(site, "--image", f"oci-archive:{archive}")
    assert (first.code, first.out) == (0, "by its own command hello\n/srv/app\n"), first
    assert re.search(r"shipped image .*app\.tar: .* new", first.err), first
    script = "id -un; echo $HOME $OMP_NUM_THREADS $PATH; cat /etc/passwd | wc -l; touch /new ~/x; ls / | grep -c new"
    again = run(site, "--image", f"oci-archive:{archive}", "--", script)
    assert again.code == 0, again
    assert again.out.splitlines() == ["ares", "/home/worker 7 /bin", "3", "1"], again
    assert "nothing new" in again.err
    # What one attempt changed, the next does not see.
    assert run(site, "--image", f"oci-archive:{archive}", "--", "ls / | grep -c new").out == "0\n"


def test_the_project_and_ares_job_are_in_the_image(site: Platform, archive: Path, tmp_path: Path) -> None:
    (tmp_path / "data.txt").write_text("of the project")
    script = (
        "pwd; cat data.txt; ls $PYTHONPATH/ares; echo '{\"a\": 1}' > $ARES_RESULT_FILE; echo kept > $ARES_OUTPUT_DIR/o"
    )
    ran = run(site, "--image", f"oci-archive:{archive}", "--", script, at=tmp_path)
    assert ran.code == 0, ran
    where, *rest = ran.out.splitlines()
    assert where.endswith("/work")
    assert rest == ["of the project__init__.py", "job.py", "job_checkpoints.py"], ran
    job = re.search(r"submitted (\w+)", ran.err)
    assert job is not None
    assert site.cli("outputs", "-o", "name", job[1]).out == "o\n"
    assert site.client().get(job[1]).result is not None


def test_datasets_are_in_the_image_and_only_read(site: Platform, archive: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello\n")
    site.client().put_dataset(tmp_path / "notes.txt", "notes")
    script = "cat $ARES_INPUT_N/notes.txt; touch $ARES_INPUT_N/new 2> /dev/null || echo refused"
    ran = run(site, "--image", f"oci-archive:{archive}", "--input", "n=ares://datasets/notes", "--", script)
    assert (ran.code, ran.out) == (0, "hello\nrefused\n"), ran


def test_a_registry_is_asked_by_tag_and_by_digest(site: Platform, registry: LocalRegistry) -> None:
    image = Image([busybox(), [member("from", b"the registry")]], {"Cmd": ["cat", "/from"]})
    ref = registry.push(image, "team/app", "1.0")
    assert run(site, "--image", ref).out == "the registry"
    pinned = f"docker://{registry.host}/team/app@{image.digest}"
    assert run(site, "--image", pinned).out == "the registry"


def test_an_account_fetches_the_image_and_is_shown_nowhere(
    site: Platform, closed: LocalRegistry, tmp_path: Path
) -> None:
    # Layers as newer builders write them.
    image = Image(
        [busybox(), [member("from", b"the account\n")]], {"Cmd": ["sh", "-c", "cat /from; env"]}, packing="zstd"
    )
    ref, (user, password) = closed.push(image, "team/private"), ACCOUNT
    without = run(site, "--image", ref)
    assert (without.code, f"--secret NAME:registry={closed.host}" in without.err) == (125, True), without
    basic = base64.b64encode(f"{user}:{password}".encode()).decode()
    (tmp_path / "config.json").write_text(json.dumps({"auths": {closed.host: {"auth": basic}}}))
    assert site.cli("secret", "set", "lab", "--from-file", str(tmp_path / "config.json")).code == 0
    (tmp_path / "config.json").unlink()
    login = f"lab:registry={closed.host}"
    ran = run(site, "--image", ref, "--secret", login)
    assert ran.code == 0, ran
    assert ran.out.startswith("the account\n")
    job = re.search(r"submitted (\w+)", ran.err)
    assert job is not None
    # Who used it is told by the ledger; it went to the registry alone, and neither to the job nor to a disk.
    events = json.loads(site.cli("events", job[1], "-o", "json").out)
    assert '"secrets": {"lab": 1}' in json.dumps(events), events
    shown = [ran.out, ran.err, json.dumps(events), site.cli("show", job[1], "-o", "json").out]
    kept = list[bytes]()
    for path in site.directory.rglob("*"):
        # Files come and go while the platform works.
        with contextlib.suppress(FileNotFoundError):
            kept += [path.read_bytes()] if path.is_file() and not path.is_symlink() else []
    for word in (password, basic):
        assert not any(word in text for text in shown)
        assert not any(word.encode() in data for data in kept)
    refused = run(site, "--image", "docker://elsewhere.test/a:1", "--secret", login)
    assert (refused.code, "the job's image is from elsewhere.test" in refused.err) == (1, True), refused


def test_a_directory_of_the_node_that_the_operator_allows(site: Platform, roots: Path, tmp_path: Path) -> None:
    Image().unpacked(roots / "plain")
    ran = run(site, "--image", f"dir:{roots}/plain", "--", "sh", "-c", "ls /bin/busybox; touch /bin/no && echo written")
    assert ran.out == "/bin/busybox\ntouch: /bin/no: Permission denied\n", ran
    job = re.search(r"submitted (\w+)", ran.err)
    assert job is not None
    assert site.cli("logs", job[1], "--stderr").out == "touch: /bin/no: Permission denied\n"


@pytest.mark.parametrize(
    ("ref", "why", "attempts"),
    [
        # Another node may be told otherwise, and what came damaged may come whole.
        ("dir:/usr", "node.images.roots", 2),
        ("docker://127.0.0.1:1/team/app:1", "the node asks only these registries", 2),
        ("{host}/team/broken:1", "and came as", 2),
        # These would end in the same way again: no retry is used up.
        ("{host}/team/none:1", "has no such image", 1),
        ("{host}/team/arm:1", "linux/arm64", 1),
    ],
)
def test_what_cannot_be_had_is_told(
    site: Platform, registry: LocalRegistry, tmp_path: Path, ref: str, why: str, attempts: int
) -> None:
    if "arm" in ref:
        registry.push(Image(architecture="arm64"), "team/arm", "1")
    if "broken" in ref:
        image = Image([[member("x", b"a" * 100)]])
        registry.push(image, "team/broken", "1")
        layer = json.loads(image.manifest)["layers"][0]["digest"]
        blob = registry.blob(layer)
        blob.write_bytes(blob.read_bytes()[:-1] + b"!")
    file = tmp_path / "job.yaml"
    file.write_text("retry: {limit: 0, classLimits: {staging: 1}}\n")
    refused = run(site, "-f", str(file), "--image", ref.format(host=registry.host), "--", "true")
    assert refused.code == 125, refused
    assert why in refused.err, refused
    job = re.search(r"submitted (\w+)", refused.err)
    assert job is not None
    assert site.client().get(job[1]).state.attempt == attempts


def test_sessions_are_in_the_image(site: Platform, archive: Path, tmp_path: Path) -> None:
    serve = "echo ready > /tmp/ready; while true; do echo answer | nc -l -p 18399 -s 127.0.0.1; done"
    job = site.cli(
        "submit", "-o", "name", "--memory", "64M", "--image", f"oci-archive:{archive}", "--", serve
    ).out.strip()
    inside = eventually(
        lambda: ((ran := site.cli("exec", job, "--", "cat", "/tmp/ready")).code == 0 and ran) or None, "it"
    )
    assert inside.out == "ready\n"
    assert site.cli("exec", job, "--", "sh", "-c", "echo $HOME; ls /bin/busybox").out == "/home/worker\n/bin/busybox\n"
    (tmp_path / "in.txt").write_text("to the image")
    assert site.cli("cp", str(tmp_path / "in.txt"), f"{job}:/tmp/in.txt").code == 0
    assert site.cli("exec", job, "--", "cat", "/tmp/in.txt").out == "to the image"
    out = site.cli("cp", f"{job}:/tmp/in.txt", str(tmp_path / "out.txt"))
    assert out.code == 0, out
    assert (tmp_path / "out.txt").read_text() == "to the image"
    assert site.cli("cancel", job).code == 0
