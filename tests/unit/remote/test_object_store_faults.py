"""Faults of a bucket, as errors of its store and its layout: an S3 server fails as a test asks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import remote.object_store
from remote.aiven_settings import S3
from remote.configured import PROBE, layout_of
from remote.errors import Absent, Denied, Exists, RemoteStorageError, Throttled, Unreachable, WrongClock
from remote.object_errors import reported
from remote.object_store import ObjectStore
from remote.segment_files import IndexKind, SegmentFiles
from remote.storage_settings import AIVEN_CLASS
from remote.store import Source
from tests.support.s3_server import ACCESS_KEY, BUCKET, SECRET_KEY, Fault, S3Server, s3_server
from tests.unit.remote.recorded import AIVEN, copied_segments

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture
def server() -> Iterator[S3Server]:
    with s3_server() as running:
        yield running


@pytest.fixture
def store(server: S3Server) -> ObjectStore:
    return ObjectStore(f"s3://{BUCKET}", server.settings, timeout_s=0.3)


@pytest.mark.parametrize(
    ("fault", "kind", "said"),
    [
        (Fault.SLOW_DOWN, Throttled, "the server answered 503 Service Unavailable (SlowDown)"),
        (Fault.BROKEN, Unreachable, "the server answered 500 Internal Server Error (InternalError)"),
        (Fault.HANG, Unreachable, "no answer in time"),
        (Fault.CUT, Unreachable, "the answer was cut short"),
        (Fault.LOST_ANSWER, Unreachable, "the connection was cut before the answer"),
        (Fault.DENIED, Denied, "the server answered 403 Forbidden (AccessDenied)"),
        (
            Fault.SKEWED,
            WrongClock,
            "the server answered 403 Forbidden (RequestTimeTooSkewed): the clock of this machine is wrong",
        ),
        (Fault.LOST_KEY, Absent, "the server answered 404 Not Found (NoSuchKey)"),
    ],
)
def test_a_fault_is_one_error_with_the_key_and_no_secret(
    fault: Fault, kind: type[RemoteStorageError], said: str, server: S3Server, store: ObjectStore
) -> None:
    """S3's answers to refused requests repeat the access key and what was signed."""
    store.put("orders/0.log", b"content" * 100)
    server.fault = lambda _: fault
    with pytest.raises(RemoteStorageError) as raised:
        store.get("orders/0.log", 5, 100)
    text = str(raised.value)
    assert type(raised.value) is kind
    assert text.startswith(f"orders/0.log: {said}")
    assert "\n" not in text
    assert ACCESS_KEY not in text
    assert SECRET_KEY not in text


def test_wrong_credentials_are_denied(server: S3Server) -> None:
    store = ObjectStore(f"s3://{BUCKET}", server.settings | {"aws_access_key_id": "nobody"})
    with pytest.raises(Denied, match="InvalidAccessKeyId"):
        store.put("a", b"1")


def test_signatures_in_urls_are_not_in_errors() -> None:
    failed = OSError("error sending request for url (https://me:word@host/c/a?sv=1&sig=abcdef): refused\n\nDebug ...")
    text = str(reported("a", failed))
    assert text == "a: error sending request for url (https://host/c/a): refused"


def test_an_object_is_stored_whole_or_not_at_all(
    server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large object is stored in parts. Parts that are missing leave no object behind."""
    monkeypatch.setattr(remote.object_store, "_MULTIPART_BYTES", 1 << 20)
    store = ObjectStore(f"s3://{BUCKET}", server.settings, part_bytes=5 << 20)
    file = tmp_path / "file"
    file.write_bytes(bytes(range(256)) * (12 << 12))
    source = Source(str(file), file.stat().st_size)
    server.fault = lambda asked: Fault.DENIED if len(server.asked) > 2 else None
    with pytest.raises(Denied):
        store.put("large", source)
    assert server.objects == {}
    server.fault = lambda _: None
    store.put("large", source)
    assert server.objects["large"] == file.read_bytes()


def test_a_listing_has_all_pages(server: S3Server, store: ObjectStore) -> None:
    server.objects.update({f"a/{number:04}": b"12" for number in range(1001)})
    found = list(store.list("a/"))
    assert len(found) == 1001
    assert {each.size_bytes for each in found} == {2}


# ---- a layout as a broker has it


def settings(server: S3Server, **more: str) -> dict[str, str]:
    return {
        "storage.backend.class": S3,
        "storage.s3.bucket.name": BUCKET,
        "storage.s3.endpoint.url": server.endpoint,
        "storage.s3.region": "us-east-1",
        "storage.aws.access.key.id": ACCESS_KEY,
        "storage.aws.secret.access.key": SECRET_KEY,
        "key.prefix": "one/",
        "storage.s3.api.call.timeout": "1000",
        **more,
    }


@pytest.fixture
def files(tmp_path: Path) -> SegmentFiles:
    log = tmp_path / "log"
    log.write_bytes(b"r" * 19500)
    return SegmentFiles(Source(str(log), 19500), b"offsets", b"times", b"producers", b"epochs")


def test_a_segment_is_copied_through_short_faults(server: S3Server, files: SegmentFiles) -> None:
    """Each kind of fault hits a part of the copy, which is complete in the end and read back."""
    copy = next(each for each in copied_segments(AIVEN) if each.segment.size_bytes == 19500)
    faults = [Fault.SLOW_DOWN, None, Fault.LOST_ANSWER, None, Fault.BROKEN, None]
    server.fault = lambda _: faults.pop(0) if faults else None
    layout = layout_of(AIVEN_CLASS, settings(server))
    layout.copy(*copy, files)
    faults = [Fault.CUT, None, Fault.CUT]
    assert layout.read(*copy, 100, 50) == b"r" * 50
    assert layout.read_index(*copy, IndexKind.LEADER_EPOCH) == b"epochs"
    assert layout.health().reason is None
    layout.delete(*copy)
    assert list(server.objects) == [f"one/{PROBE}"]


def test_half_a_copy_is_no_segment_and_can_be_deleted(server: S3Server, files: SegmentFiles) -> None:
    copy = next(copied_segments(AIVEN))
    layout = layout_of(AIVEN_CLASS, settings(server))
    server.fault = lambda asked: Fault.HANG if asked.key.endswith(".rsm-manifest") else None
    with pytest.raises(Unreachable, match="rsm-manifest: no answer in time"):
        layout.copy(*copy, files)
    server.fault = lambda _: None
    assert len(server.objects) == 2
    with pytest.raises(Absent):
        layout.read(*copy, 0, 10)
    layout.delete(*copy)
    assert list(server.objects) == [f"one/{PROBE}"]


def test_a_store_that_is_gone_costs_five_requests(server: S3Server) -> None:
    copy = next(copied_segments(AIVEN))
    layout = layout_of(AIVEN_CLASS, settings(server))
    server.fault = lambda _: Fault.BROKEN
    for _ in range(10):
        with pytest.raises(Unreachable):
            layout.read(*copy, 0, 10)
    assert len(server.asked) == 5
    assert "InternalError" in (layout.health().reason or "")


def test_an_unknown_key_that_finds_nothing_deletes_nothing(server: S3Server, files: SegmentFiles) -> None:
    copy = next(copied_segments(AIVEN))
    layout = layout_of(AIVEN_CLASS, settings(server))
    layout.copy(*copy, files)
    stored = dict(server.objects)
    server.fault = lambda _: Fault.LOST_KEY
    other = layout_of(AIVEN_CLASS, settings(server))
    for operation in (lambda: other.read(*copy, 0, 10), lambda: layout.delete(*copy)):
        with pytest.raises(Denied):
            operation()
    server.fault = lambda _: None
    assert server.objects == stored


def test_a_copy_is_never_replaced(server: S3Server, files: SegmentFiles) -> None:
    copy = next(copied_segments(AIVEN))
    layout = layout_of(AIVEN_CLASS, settings(server))
    layout.copy(*copy, files)
    with pytest.raises(Exists):
        layout.copy(*copy, files)
    assert [each.method for each in server.asked].count("PUT") == 4
