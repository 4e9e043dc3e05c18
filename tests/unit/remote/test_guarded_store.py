"""A store that fails, in a guarded one, with a clock that only the guarded store moves."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence

import pytest

from remote.errors import Absent, Damaged, Denied, Exists, OutOfSpace, RemoteStorageError, Throttled, Unreachable
from remote.guarded_store import Clock, GuardedStore
from remote.store import Listed, Source

PROBE = "_pybroker/probe"


class FailingStore:
    """Objects in memory. `errors` are raised in order, None among them is an answer; `before` runs in each request."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.errors: list[RemoteStorageError | None] = []
        self.asked: list[str] = []
        self.before: Callable[[], None] = lambda: None
        self.loses_the_answer = False

    def _asked(self, what: str) -> None:
        self.asked.append(what)
        self.before()
        error = self.errors.pop(0) if self.errors else None
        if error is not None:
            raise error

    def put(self, key: str, content: bytes | Source) -> None:
        data = content if isinstance(content, bytes) else b"?" * content.size_bytes
        if self.loses_the_answer:
            self.objects[key] = data
            self.loses_the_answer = False
            raise Unreachable(key, "cut")
        self._asked(f"put {key}")
        if key in self.objects:
            raise Exists(key, "there is one")
        self.objects[key] = data

    def get(self, key: str, start: int = 0, size_bytes: int | None = None) -> bytes:
        self._asked(f"get {key}")
        if key not in self.objects:
            raise Absent(key, "none")
        return self.objects[key][start:]

    def delete(self, keys: Sequence[str]) -> None:
        self._asked(f"delete {' '.join(keys)}")
        for key in keys:
            self.objects.pop(key, None)

    def list(self, prefix: str) -> Iterator[Listed]:
        self._asked(f"list {prefix}")
        return iter([Listed(key, len(data)) for key, data in self.objects.items() if key.startswith(prefix)])


class Time:
    """A clock that moves by sleeping."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds


@pytest.fixture
def inner() -> FailingStore:
    return FailingStore()


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def store(inner: FailingStore, time: Time) -> GuardedStore:
    return GuardedStore(inner, "s3://bucket", clock=Clock(lambda: time.now_s, time.sleep, lambda: 0.0))


def fails(count: int) -> list[RemoteStorageError | None]:
    return [Unreachable("a", "no answer in time")] * count


def open_circuit(store: GuardedStore, inner: FailingStore) -> None:
    inner.errors = fails(5)
    for _ in range(2):
        with pytest.raises(Unreachable):
            store.get("a")


def test_a_request_is_tried_three_times(store: GuardedStore, inner: FailingStore, time: Time) -> None:
    inner.objects["a"] = b"content"
    inner.errors = fails(2)
    assert store.get("a") == b"content"
    assert time.slept == [0.1, 0.2]


def test_no_try_begins_after_the_deadline(inner: FailingStore, time: Time) -> None:
    store = GuardedStore(inner, "s3://bucket", deadline_s=30, clock=Clock(lambda: time.now_s, time.sleep, lambda: 0.0))
    inner.errors = fails(9)

    def hang() -> None:
        time.now_s += 29.95

    inner.before = hang
    with pytest.raises(Unreachable, match="no answer in time"):
        store.get("a")
    assert len(inner.asked) == 1


def test_an_open_circuit_answers_without_a_request(
    store: GuardedStore, inner: FailingStore, time: Time, caplog: pytest.LogCaptureFixture
) -> None:
    """The circuit opens once, with one line; the first answer closes it, with another."""
    inner.objects["a"] = b"content"
    with caplog.at_level(logging.INFO):
        open_circuit(store, inner)
        asked = len(inner.asked)
        assert asked == 5
        time.slept.clear()
        with pytest.raises(Unreachable, match="not asked for, since the storage fails: no answer in time"):
            store.get("b")
        assert (len(inner.asked), time.slept) == (asked, [])
        assert store.health().reason == "no answer in time"
        time.now_s += 1
        inner.errors = fails(1)
        with pytest.raises(Unreachable, match="no answer in time"):
            store.get("a")
        assert len(inner.asked) == asked + 1  # a probe is tried once
        time.now_s += 1
        assert store.get("a") == b"content"
    assert store.health().reason is None
    assert caplog.messages == [
        "Remote storage s3://bucket fails: a: no answer in time. It is tried again each second.",
        "Remote storage s3://bucket answers again after 2 s.",
    ]


@pytest.mark.parametrize("error", [Absent("a", "none"), Damaged("a", "short"), Exists("a", "one")])
def test_an_error_about_one_object_is_an_answer(
    error: RemoteStorageError, store: GuardedStore, inner: FailingStore
) -> None:
    for _ in range(20):
        inner.errors = [error]
        with pytest.raises(type(error)):
            store.get("a")
    assert store.health().reason is None
    assert len(inner.asked) == 20


def test_a_full_disk_does_not_stop_reads(store: GuardedStore, inner: FailingStore) -> None:
    for number in range(9):
        inner.errors = [OutOfSpace("a", "full")]
        with pytest.raises(OutOfSpace):
            store.put(str(number), b"1")
    inner.objects["a"] = b"content"
    assert store.get("a") == b"content"


def test_refused_credentials_are_tried_each_minute(
    store: GuardedStore, inner: FailingStore, time: Time, caplog: pytest.LogCaptureFixture
) -> None:
    inner.objects["a"] = b"content"
    inner.errors = [Denied("a", "the server answered 403 Forbidden")]
    with pytest.raises(Denied):
        store.get("a")
    time.now_s += 59
    with pytest.raises(Unreachable, match="403 Forbidden"):
        store.get("a")
    time.now_s += 1
    assert store.get("a") == b"content"
    assert "Check the credentials" in caplog.text


def test_a_store_that_asks_for_less_gets_less(store: GuardedStore, inner: FailingStore, time: Time) -> None:
    inner.objects["a"] = b"content"
    inner.errors = [Throttled("a", "503")]
    assert store.get("a") == b"content"
    assert (store.health().limit, time.slept) == (32, [0.5])
    assert store.health().reason is None


def test_a_store_that_refuses_single_requests_fails(inner: FailingStore, time: Time) -> None:
    clock = Clock(lambda: time.now_s, time.sleep, lambda: 0.0)
    store = GuardedStore(inner, "s3://bucket", most_requests=2, clock=clock)
    inner.errors = [Throttled("a", "503")] * 20
    for _ in range(9):
        with pytest.raises(Unreachable):
            store.get("a")
    assert len(inner.asked) == 5
    assert store.health() == ("503", 1, 0)


def test_requests_beyond_the_limit_wait(inner: FailingStore) -> None:
    store = GuardedStore(inner, "s3://bucket", most_requests=1)
    begun, may_end = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        assert may_end.wait(10)

    inner.before = wait
    inner.objects["a"] = b"content"
    read: list[bytes] = []
    threads = [threading.Thread(target=lambda: read.append(store.get("a"))) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert begun.wait(10)
    assert len(inner.asked) == 1
    may_end.set()
    for thread in threads:
        thread.join()
    assert read == [b"content"] * 2


def test_an_upload_whose_answer_was_lost_is_done(store: GuardedStore, inner: FailingStore) -> None:
    inner.loses_the_answer = True
    store.put("folder/a", b"content")
    assert inner.asked == ["put folder/a", "list folder/"]


def test_another_object_of_the_key_is_not_taken_for_it(store: GuardedStore, inner: FailingStore) -> None:
    inner.objects["folder/a"] = b"another"
    with pytest.raises(Exists):
        store.put("folder/a", b"content")
    inner.errors = fails(1)
    with pytest.raises(Exists):
        store.put("folder/a", b"of another size")
    assert inner.objects["folder/a"] == b"another"


def test_the_oldest_upload_has_an_age(store: GuardedStore, inner: FailingStore, time: Time) -> None:
    ages = []

    def hang() -> None:
        time.now_s += 7
        ages.append(store.health().oldest_upload_s)

    inner.before = hang
    store.put("a", b"1")
    assert ages == [7]
    assert store.health().oldest_upload_s == 0


# ---- absence


@pytest.fixture
def doubting(inner: FailingStore, time: Time) -> GuardedStore:
    clock = Clock(lambda: time.now_s, time.sleep, lambda: 0.0)
    return GuardedStore(inner, "s3://bucket", probe_key=PROBE, clock=clock)


def test_absence_is_believed_where_the_probe_is_stored(doubting: GuardedStore, inner: FailingStore, time: Time) -> None:
    for _ in range(2):
        with pytest.raises(Absent):
            doubting.get("a")
    assert inner.asked == ["get a", f"put {PROBE}", "get a"]
    time.now_s += 10
    with pytest.raises(Absent):
        doubting.get("a")
    assert inner.asked[-1] == f"put {PROBE}"  # again: credentials may have changed


def test_a_store_that_finds_nothing_denies(doubting: GuardedStore, inner: FailingStore) -> None:
    """Some servers answer "not found" to an unknown access key, for what is stored there, too."""
    inner.objects["a"] = b"content"
    inner.errors = [Absent("a", "404"), Absent(PROBE, "404")]
    with pytest.raises(Denied, match="absence is no proof"):
        doubting.get("a")


def test_nothing_counts_as_deleted_in_such_a_store(doubting: GuardedStore, inner: FailingStore) -> None:
    inner.objects["a"] = b"content"
    inner.errors = [Absent(PROBE, "404")]
    with pytest.raises(Denied):
        doubting.delete(["a"])
    assert inner.asked == [f"put {PROBE}"]


def test_an_object_to_be_stored_cannot_be_absent(store: GuardedStore, inner: FailingStore) -> None:
    inner.errors = [Absent("a", "404 NoSuchBucket")]
    with pytest.raises(Denied, match="no such bucket, or wrong credentials"):
        store.put("a", b"1")
