"""An object store behind the ports of files: their suites on a real server, and what a URL can be misused for.

One server serves the file: it takes seconds to start.
"""

import hashlib
import http.server
import threading
import time
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import pytest_asyncio
from msgspec.structs import asdict

from ares.adapters.objects import blobs as object_blobs
from ares.adapters.objects import bucket as object_bucket
from ares.adapters.objects.blobs import ObjectBlobs, blob_key
from ares.adapters.objects.bucket import Bucket
from ares.adapters.objects.projects import ObjectProjects
from ares.adapters.objects.room import BucketRoom
from ares.adapters.objects.signing import StoreCredentials
from ares.model.base import CheckpointRef
from ares.ports.blobs import Blobs, Mismatch
from tests.seaweed import SeaweedServer, send, sha
from tests.unit.adapters.blobs import test_blobs as suite
from tests.unit.adapters.blobs.test_blobs import DATA, JOB, file, keep, ref
from tests.unit.adapters.projects.test_files import manifest_of

S = 60
# The suite of the port, on this adapter.
test_a_sealed_file_is_never_written_again = suite.test_a_sealed_file_is_never_written_again
test_pieces_make_the_file_once = suite.test_pieces_in_any_order_and_number_make_the_file_once
test_what_is_not_as_announced_is_dropped = suite.test_what_is_not_as_announced_is_dropped


@pytest.fixture(scope="module")
def seaweed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeaweedServer]:
    server = SeaweedServer(tmp_path_factory.mktemp("seaweed")).start()
    yield server
    server.stop()


@pytest_asyncio.fixture
async def bucket(seaweed: SeaweedServer, request: pytest.FixtureRequest) -> AsyncIterator[Bucket]:
    opened = seaweed.bucket(prefix=f"{hashlib.sha256(request.node.name.encode()).hexdigest()[:12]}/")
    opened.compares = True
    yield opened
    await opened.close()


@pytest.fixture
def blobs(bucket: Bucket, tmp_path: Path) -> Blobs:
    return ObjectBlobs(bucket, tmp_path / "spool")


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


async def keys_of(bucket: Bucket, prefix: str = "") -> list[str]:
    return [found.key async for found in bucket.listed(prefix)]


# ---- outputs and checkpoints


async def test_another_replica_goes_on_or_begins_anew(bucket: Bucket, tmp_path: Path) -> None:
    one, two = ObjectBlobs(bucket, tmp_path / "one"), ObjectBlobs(bucket, tmp_path / "two")
    assert await one.append(ref(), sha(DATA), 0, DATA[:1000]) == 1000
    # The pieces are in the spool of the first: the sender is told where to go on.
    assert await two.append(ref(), sha(DATA), 1000, DATA[1000:]) == 0
    assert await two.append(ref(), sha(DATA), 0, DATA) == len(DATA)
    assert await two.seal(ref(), sha(DATA), len(DATA)) is None
    assert await one.append(ref(), sha(DATA), 1000, DATA[1000:]) == len(DATA)
    assert await one.seal(ref(), sha(DATA), len(DATA)) is None
    assert await one.read(ref(), sha(DATA), 10, 20) == DATA[10:30]
    await one.keep_only("acme", JOB, None)
    await two.keep_only("acme", JOB, None)
    assert await keys_of(bucket) == []
    assert not files_below(tmp_path)


async def test_checkpoints_are_listed_taken_over_and_removed(blobs: ObjectBlobs, bucket: Bucket) -> None:
    refs = [CheckpointRef(**asdict(ref(1)), seq=seq) for seq in (1, 2, 10)]
    for saved in refs:
        await blobs.append(saved, sha(DATA), 0, DATA)
        assert await blobs.seal(saved, sha(DATA), len(DATA)) is None
    await keep(blobs, DATA, 1)
    assert [known.seq for known in await blobs.checkpoints("acme", JOB)] == [1, 2, 10]
    other = CheckpointRef(**asdict(ref(0, job="f" * 16)), seq=2)
    await blobs.adopt(refs[1], other)
    await blobs.adopt(refs[1], other)
    await blobs.remove(refs[1])
    assert [known.seq for known in await blobs.checkpoints("acme", JOB)] == [1, 10]
    assert await blobs.read(other, sha(DATA), 0, len(DATA)) == DATA
    with pytest.raises(FileNotFoundError):
        await blobs.adopt(refs[1], other)
    last = (await blobs.checkpoints("acme", JOB))[-1:]
    await blobs.keep_only("acme", JOB, None, last)
    assert await blobs.checkpoints("acme", JOB) == last
    assert await blobs.unsealed(ref(1), [file(DATA)]) == (file(DATA),)
    assert await blobs.unsettled(3600.0) == ()
    assert await blobs.unsettled(-5.0) == (("acme", "f" * 16),)


async def test_a_large_file_goes_in_parts(blobs: ObjectBlobs, bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_blobs, "PART_BYTES", 5 << 20)
    data = bytes(range(251)) * 45_000
    await keep(blobs, data)
    assert await bucket.size(blob_key(ref(), sha(data))) == len(data) > 10 << 20
    assert await blobs.read(ref(), sha(data), (5 << 20) - 3, 9) == data[(5 << 20) - 3 :][:9]
    assert sha(await bucket.read(blob_key(ref(), sha(data)))) == sha(data)


async def test_a_tenant_holds_only_so_much(bucket: Bucket, tmp_path: Path) -> None:
    kept = ObjectBlobs(bucket, tmp_path, BucketRoom(bucket, mib_max=1, objects_max=10))
    large, small = bytes(1 << 20), b"more"
    await keep(kept, large)
    await kept.append(ref(2), sha(small), 0, small)
    with pytest.raises(OSError, match="tenant acme holds 1 MiB of 1 MiB"):
        await kept.seal(ref(2), sha(small), len(small))
    await keep(kept, small, 1, tenant="other")
    await kept.keep_only("acme", JOB, None)
    await keep(kept, small, 3)


# ---- projects and datasets


async def test_a_manifest_is_kept_once_all_its_parts_are(bucket: Bucket) -> None:
    files = ObjectProjects(bucket)
    digest, raw, parts = manifest_of({"a": b"one", "b": b"two", "c": b""})
    assert set(await files.commit("t", digest, raw, parts)) == set(parts)
    assert not await files.touch("t", digest)
    assert await files.keep("t", [memoryview(b"one"), memoryview(b"one")]) == (sha(b"one"),) * 2
    assert await files.commit("t", digest, raw, parts) == (sha(b"two"),)
    await files.keep("t", [memoryview(b"two"), memoryview(b"one")])
    assert await files.commit("t", digest, raw, parts) == ()
    assert await files.commit("t", digest, raw, {**parts, sha(b"one"): 4}) == (sha(b"one"),)
    assert await files.touch("t", digest)
    assert await files.manifest("t", digest) == raw
    assert await files.part("t", sha(b"two")) == b"two"
    assert await files.tenants() == ("t",)
    with pytest.raises(FileNotFoundError):
        await files.part("other", sha(b"two"))


async def test_what_a_manifest_names_stays_and_the_rest_goes(bucket: Bucket) -> None:
    files = ObjectProjects(bucket)
    for what in ({"a": b"one", "b": b"two"}, {"a": b"two", "b": b"three"}):
        digest, raw, parts = manifest_of(what)
        await files.keep("t", [memoryview(data) for data in what.values()])
        assert await files.commit("t", digest, raw, parts) == ()
    first, second = manifest_of({"a": b"one", "b": b"two"})[0], manifest_of({"a": b"two", "b": b"three"})[0]
    assert await files.unused(3600.0) == ()
    assert sorted(await files.unused(-5.0)) == sorted([("t", first), ("t", second)])
    assert await files.forget("t", [first], 3600.0) == 0
    freed = await files.forget("t", [first], -5.0)
    assert freed == len(b"one") + len(manifest_of({"a": b"one", "b": b"two"})[1])
    assert await files.part("t", sha(b"two")) == b"two"
    with pytest.raises(FileNotFoundError):
        await files.part("t", sha(b"one"))


# ---- signed URLs


def _misuses(seaweed: SeaweedServer, bucket: Bucket) -> dict[str, tuple[str, str, dict[str, str], bytes | None]]:
    """Each is one step away from a request that is granted: write DATA under the fence 1.1."""
    key, late = blob_key(ref(1), sha(DATA)), len(DATA)
    url, headers = bucket.put_url(key, late, sha(DATA), S)
    fenced, expired = blob_key(ref(2), sha(DATA)), seaweed.bucket(bucket.prefix, ahead_s=-3600.0)
    wrong, other = DATA[1:] + b"!", seaweed.bucket(bucket.prefix, secret_key="another")
    return {
        "another key": ("PUT", url.replace(sha(DATA), sha(b"x")), headers, DATA),
        "another tenant": ("PUT", url.replace("/acme/", "/other/"), headers, DATA),
        "another fence": ("PUT", url.replace(blob_key(ref(1), sha(DATA)), fenced), headers, DATA),
        "another method": ("DELETE", url, {}, None),
        "to read by it": ("GET", url, {}, None),
        "another size": ("PUT", url, {**headers, "content-length": str(late - 1)}, DATA[:-1]),
        "another digest": (
            "PUT", url, {**headers, "x-amz-checksum-sha256": bucket.put_url(key, late, sha(wrong), S)[1][
                "x-amz-checksum-sha256"]}, wrong,
        ),
        "other bytes": ("PUT", url, headers, wrong),
        "no digest": ("PUT", url, {k: v for k, v in headers.items() if "checksum" not in k}, DATA),
        "over what is there": ("PUT", url, {k: v for k, v in headers.items() if k != "if-none-match"}, DATA),
        "expired": ("PUT", expired.put_url(key, late, sha(DATA), S)[0], headers, DATA),
        "a later end": ("PUT", url.replace(f"Expires={S}", "Expires=600000"), headers, DATA),
        "another secret": ("PUT", other.put_url(key, late, sha(DATA), S)[0], headers, DATA),
    }  # fmt: skip


async def test_a_url_is_good_for_one_request_and_no_other(seaweed: SeaweedServer, bucket: Bucket) -> None:
    answers = {name: send(*what) for name, what in _misuses(seaweed, bucket).items()}
    assert {name: status for name, status in answers.items() if status not in (400, 403)} == {}
    assert await keys_of(bucket) == []
    url, headers = bucket.put_url(blob_key(ref(1), sha(DATA)), len(DATA), sha(DATA), S)
    assert send("PUT", url, headers, DATA) == 200
    # Once: what is there stays.
    assert send("PUT", url, headers, DATA) == 412
    assert send("GET", bucket.get_url(blob_key(ref(1), sha(DATA)), S), {}, None) == 200
    assert send("PUT", bucket.get_url(blob_key(ref(1), sha(DATA)), S), {}, b"x") == 403
    assert await bucket.read(blob_key(ref(1), sha(DATA))) == DATA


@pytest.mark.parametrize("off_s", [-300.0, 300.0])
async def test_a_clock_that_is_five_minutes_off_neither_stops_nor_allows_anything(
    seaweed: SeaweedServer, off_s: float
) -> None:
    late = seaweed.bucket(f"clock{off_s:+g}/", ahead_s=off_s)
    assert await late.prove() == ""
    key = blob_key(ref(1), sha(DATA))
    answers = {name: send(*what) for name, what in _misuses(seaweed, late).items()}
    assert {name: status for name, status in answers.items() if status not in (400, 403)} == {}
    assert await keys_of(late) == []
    # A URL for a minute is good now, and not for five minutes more.
    url, headers = late.put_url(key, len(DATA), sha(DATA), S)
    assert abs(_signed_at(url) - time.time()) < S / 2
    assert send("PUT", url, headers, DATA) == 200
    assert send("GET", late.get_url(key, S), {}, None) == 200
    await late.close()


def _signed_at(url: str) -> float:
    (stamp,) = parse_qs(urlsplit(url).query)["X-Amz-Date"]
    return datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()


async def test_wrong_keys_and_a_missing_bucket_are_said(seaweed: SeaweedServer) -> None:
    for opened in (seaweed.bucket(secret_key="wrong"), seaweed.bucket(name="missing")):
        wrong = await opened.prove()
        assert wrong.startswith(f"the object store {seaweed.origin} answers 40")
        assert opened.trouble == wrong
        await opened.close()


# ---- a store that lies


class _Liar(http.server.BaseHTTPRequestHandler):
    """Takes any bytes, says that they are right, and spoils one of them."""

    kept: dict[str, bytes] = {}
    # Answers that are given first, whatever is asked for.
    first: list[tuple[int, bytes]] = []

    def parse_request(self) -> bool:
        parsed = super().parse_request()
        if parsed and self.first:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            self._say(*self.first.pop(0))
            return False
        return parsed

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        path = urlsplit(self.path).path
        if path in self.kept and self.headers.get("if-none-match"):
            return self._say(412)
        self.kept[path] = body[:-1] + b"?" if len(body) > 100 else body
        return self._say(200)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        self._say(200, self.kept[path]) if path in self.kept else self._say(404)

    def do_DELETE(self) -> None:
        self.kept.pop(urlsplit(self.path).path, None)
        self._say(204)

    def _say(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.send_header("last-modified", "Tue, 17 Nov 2026 20:00:00 GMT")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is http.server's
        """Says nothing."""


@pytest_asyncio.fixture
async def liar() -> AsyncIterator[Bucket]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Liar)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    opened = Bucket(f"http://127.0.0.1:{server.server_port}", "ares", StoreCredentials("a", "b"))
    yield opened
    await opened.close()
    server.shutdown()
    thread.join()
    server.server_close()
    _Liar.kept.clear()
    _Liar.first.clear()


async def test_a_store_that_lies_about_digests_is_found_out(liar: Bucket, tmp_path: Path) -> None:
    assert await liar.prove() == ""
    assert liar.compares is False
    kept, spoilt = ObjectBlobs(liar, tmp_path / "spool"), DATA[:-1] + b"?"
    await kept.append(ref(), sha(DATA), 0, DATA)
    assert await kept.seal(ref(), sha(DATA), len(DATA)) == Mismatch(len(DATA), sha(spoilt))
    assert await liar.size(blob_key(ref(), sha(DATA))) is None
    with pytest.raises(OSError, match="other bytes than were sent"):
        await ObjectProjects(liar).keep("t", [memoryview(DATA)])
    # Of a replica that ended before it read it back.
    await liar.put(blob_key(ref(), sha(DATA)), DATA, len(DATA), sha(DATA))
    assert await kept.seal(ref(), sha(DATA), len(DATA)) == Mismatch(len(DATA), sha(spoilt))
    assert await liar.size(blob_key(ref(), sha(DATA))) is None


async def test_a_store_that_is_busy_is_not_taken_to_compare_digests(liar: Bucket) -> None:
    _Liar.first.append((503, b""))
    assert "answers 503" in await liar.prove()
    assert liar.compares is None
    assert await liar.prove() == ""
    assert liar.compares is False


async def test_a_failure_after_the_store_began_to_answer_is_one(liar: Bucket) -> None:
    late = (200, b"<Error><Code>InternalError</Code></Error>")
    for call in (partial(liar.copy, "a", "b"), partial(liar.end_parts, "a", "1", [])):
        _Liar.first[:] = [late] * 4
        with pytest.raises(OSError, match="answers 200 InternalError"):
            await call()
    _Liar.first[:] = [late, (200, b"<CopyObjectResult/>")]
    await liar.copy("a", "b")


async def test_no_more_is_taken_than_was_asked_for(liar: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    _Liar.kept["/ares/a"] = DATA
    # It does not know ranges.
    assert await liar.read("a", 100, 7) == DATA[100:107]
    monkeypatch.setattr(object_bucket, "_WHOLE_BYTES_MAX", 1000)
    with pytest.raises(OSError, match="more than 1,000 bytes"):
        await liar.read("a")


@pytest.mark.parametrize(
    ("listing", "said"),
    [
        ("<Contents><Key>other</Key><Size>1</Size></Contents>", "was not asked for"),
        ("<Contents><Key>mine/a</Key><Size>-1</Size></Contents>", "was not asked for"),
        ("<IsTruncated>true</IsTruncated><NextContinuationToken>x</NextContinuationToken>", "again and again"),
    ],
)
async def test_a_listing_is_of_what_was_asked_for_and_has_an_end(liar: Bucket, listing: str, said: str) -> None:
    _Liar.first[:] = [(200, f"<ListBucketResult>{listing}</ListBucketResult>".encode())] * 3
    with pytest.raises(OSError, match=said):
        await keys_of(liar, "mine/")
