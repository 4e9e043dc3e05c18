"""Tiered storage in a bucket of versitygw, which checks signatures and is none of our programs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import pybroker
from remote.configured import PROBE
from remote.errors import Absent, Denied, Exists, RemoteStorageError
from remote.object_store import ObjectStore
from remote.store import Listed, Source
from tests.integration import test_tiered_bucket as bucket
from tests.support.brokers import HOST
from tests.support.eventually import eventually
from tests.support.s3_server import ACCESS_KEY, BUCKET, SECRET_KEY
from tests.support.tiered_client import TieredClient
from tests.support.versitygw import Gateway, versitygw

pytestmark = pytest.mark.full_size


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    for name in ("gateway", "broker"):
        (tmp_path / name).mkdir()
    with versitygw(tmp_path / "gateway") as running:
        yield running


@pytest.fixture
def store(gateway: Gateway) -> ObjectStore:
    return ObjectStore(f"s3://{BUCKET}", gateway.settings)


def test_an_object_is_created_once_and_read_in_ranges(store: ObjectStore) -> None:
    store.put("a/b", b"0123456789")
    with pytest.raises(Exists):
        store.put("a/b", b"other")
    assert store.get("a/b") == b"0123456789"
    assert store.get("a/b", 4) == b"456789"
    assert store.get("a/b", 4, 3) == b"456"
    assert list(store.list("a/")) == [Listed("a/b", 10)]
    with pytest.raises(Absent):
        store.get("a/c")
    store.delete(["a/b", "a/c"])
    assert list(store.list("")) == []


def test_a_large_object_is_stored_in_parts(store: ObjectStore, tmp_path: Path) -> None:
    content = os.urandom(70 << 20)  # 64 MiB and more are stored in parts
    (tmp_path / "large").write_bytes(content)
    store.put("large", Source(str(tmp_path / "large"), len(content)))
    assert list(store.list("")) == [Listed("large", len(content))]
    assert store.get("large", 17 << 20, 100) == content[17 << 20 :][:100]
    assert store.get("large") == content


@pytest.mark.parametrize(
    ("wrong", "kind"), [("aws_access_key_id", Absent), ("aws_secret_access_key", Denied)], ids=["name", "secret"]
)
def test_wrong_keys_are_refused(gateway: Gateway, wrong: str, kind: type[RemoteStorageError]) -> None:
    """It answers 404 to an unknown access key, also to a request to store an object."""
    store = ObjectStore(f"s3://{BUCKET}", gateway.settings | {wrong: "nobody"})
    with pytest.raises(RemoteStorageError) as raised:
        store.put("a", b"1")
    assert type(raised.value) is kind
    assert SECRET_KEY not in str(raised.value)
    assert ACCESS_KEY not in str(raised.value)


def test_both_tiers_are_read(gateway: Gateway, tmp_path: Path) -> None:
    """By clients, and without the broker; the copies go with their topic."""
    settings = bucket.plugin(gateway)  # type: ignore[arg-type]
    with bucket.BucketBroker(tmp_path / "broker", settings) as broker, TieredClient(HOST, broker.port) as client:
        bucket.fill(client)
        bucket.await_local(client, 5)
        assert bucket.segments(gateway) == list(range(5))  # type: ignore[arg-type]
        assert [record.value for record in bucket.read_all(client)] == bucket.VALUES
        options = {"endpoint.url": gateway.endpoint, "access.key.id": ACCESS_KEY, "secret.access.key": SECRET_KEY}
        every = pybroker.read(broker.log_dir / "t-0", remote=f"s3://{BUCKET}/one", storage_options=options).read_all()
        assert every.column("value").to_pylist() == bucket.VALUES
        client.delete_topic("t")
        eventually(lambda: [key for key in gateway.objects if not key.endswith(PROBE)], equal_to=[])
        assert "Traceback" not in broker.output


def test_wrong_credentials_remove_nothing(gateway: Gateway, tmp_path: Path) -> None:
    wrong = bucket.plugin(gateway, **{"storage.aws.access.key.id": "nobody"})  # type: ignore[arg-type]
    with bucket.BucketBroker(tmp_path / "broker", wrong) as broker, TieredClient(HOST, broker.port) as client:
        bucket.fill(client)
        [line] = eventually(lambda: bucket.lines_about_storage(broker), until=bool)
        assert "404 Not Found (XAdminUserNotFound). Check the credentials" in line
        assert client.special("t")[3] == 0
        assert [record.value for record in bucket.read_all(client)] == bucket.VALUES
        assert gateway.objects == {}
        assert SECRET_KEY not in broker.output
