"""A broker with a bucket that fails: nothing is lost, local records are served, and each failure is one line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import pybroker
from protocol.error_codes import ErrorCode
from protocol.messages.describe_configs import DESCRIBE_CONFIGS
from protocol.records.entries import Record
from remote.aiven_settings import S3
from remote.configured import PROBE
from remote.storage_settings import AIVEN_CLASS, OWN_CLASS
from tests.support.brokers import HOST, OurBroker
from tests.support.data_client import batch
from tests.support.eventually import eventually
from tests.support.s3_server import ACCESS_KEY, BUCKET, SECRET_KEY, Fault, S3Server, s3_server
from tests.support.tiered_brokers import tiered_properties
from tests.support.tiered_client import TieredClient
from tools.data import verify

TOPIC = {
    "remote.storage.enable": "true",
    "segment.bytes": "1048576",
    "internal.segment.bytes": "1000",
    "local.retention.bytes": "1",
}
UNKNOWN = int(ErrorCode.UNKNOWN_SERVER_ERROR)
#: One batch fills a segment; the last one stays active.
VALUES = [b"%d" % number * 800 for number in range(6)]


class BucketBroker(OurBroker):
    """pybroker with a tier, and the settings of a bucket."""

    def __init__(self, directory: Path, properties: Mapping[str, str]) -> None:
        usual = tiered_properties(directory, properties)
        del usual["rsm.config.dir"]
        super().__init__(directory, usual)


@pytest.fixture
def server() -> Iterator[S3Server]:
    with s3_server() as running:
        yield running


def plugin(server: S3Server, **more: str) -> dict[str, str]:
    """Return the settings of Aiven's plugin."""
    settings = {
        "storage.backend.class": S3,
        "storage.s3.bucket.name": BUCKET,
        "storage.s3.endpoint.url": server.endpoint,
        "storage.s3.region": "us-east-1",
        "storage.s3.api.call.timeout": "1000",
        "storage.aws.access.key.id": ACCESS_KEY,
        "storage.aws.secret.access.key": SECRET_KEY,
        "key.prefix": "one/",
        "custom.metadata.fields.include": "REMOTE_SIZE",
        **more,
    }
    prefixed = {f"rsm.config.{key}": value for key, value in settings.items()}
    return {
        "remote.log.storage.manager.class.name": AIVEN_CLASS,
        "remote.log.manager.task.retry.backoff.ms": "100",
        "remote.log.manager.task.retry.backoff.max.ms": "500",
        **prefixed,
    }


def fill(client: TieredClient, topic: str = "t") -> None:
    client.create_topic(topic, configs=TOPIC)
    for offset, value in enumerate(VALUES):
        assert client.produce(topic, batch(value)) == offset


def segments(server: S3Server) -> list[int]:
    """Return the first offsets of the complete segments in the bucket."""
    found = (re.search(r"/(\d{20})-[^/]*\.rsm-manifest$", key) for key in list(server.objects))
    return sorted(int(each[1]) for each in found if each)


def await_local(client: TieredClient, start: int) -> None:
    eventually(lambda: client.special("t")[3], equal_to=start)


def read_all(client: TieredClient) -> list[Record]:
    """Read the topic as a consumer does, which fetches again after an empty answer or an error of the storage."""
    return eventually(lambda: client.read_all("t"), retried=(AssertionError,))


def lines_about_storage(broker: BucketBroker) -> list[str]:
    return [line for line in broker.output.splitlines() if "Remote storage " in line]


def test_segments_reach_a_bucket_through_faults(server: S3Server, tmp_path: Path) -> None:
    """Each of the first requests fails in another way. In the end each segment has one copy, read by two programs."""
    faults = [Fault.SLOW_DOWN, Fault.BROKEN, None, Fault.LOST_ANSWER, None, Fault.CUT, Fault.HANG, Fault.BROKEN, None]
    server.fault = lambda asked: faults.pop(0) if faults else None
    with BucketBroker(tmp_path, plugin(server)) as broker, TieredClient(HOST, broker.port) as client:
        fill(client)
        await_local(client, 5)
        assert not faults
        eventually(lambda: segments(server), equal_to=list(range(5)))
        faults[:] = [Fault.CUT, None, Fault.SLOW_DOWN]
        assert [record.value for record in read_all(client)] == VALUES
        assert SECRET_KEY not in broker.output
        assert "Traceback" not in broker.output

        options = {"endpoint.url": server.endpoint, "access.key.id": ACCESS_KEY, "secret.access.key": SECRET_KEY}
        url = f"s3://{BUCKET}/one"
        every = pybroker.read(broker.log_dir / "t-0", remote=url, storage_options=options).read_all()
        assert every.column("value").to_pylist() == VALUES

        client.delete_topic("t")
        eventually(lambda: [key for key in server.objects if not key.endswith(PROBE)], equal_to=[])


def test_an_outage_removes_nothing_and_is_one_line(server: S3Server, tmp_path: Path) -> None:
    """Local records are written and read meanwhile; remote ones get Kafka's error, and come when the bucket is back."""
    with BucketBroker(tmp_path, plugin(server)) as broker, TieredClient(HOST, broker.port) as client:
        fill(client)
        await_local(client, 5)
        server.fault = lambda _: Fault.BROKEN
        for number in range(6, 12):
            assert client.produce("t", batch(b"%d" % number * 400)) == number
        eventually(lambda: len(lines_about_storage(broker)), equal_to=1)
        assert client.special("t")[:2] + client.special("t")[3:4] == [12, 0, 5]
        assert client.fetched("t", 5)["code"] == 0
        for offset in (0, 4):
            eventually(lambda offset=offset: client.fetched("t", offset)["code"], equal_to=UNKNOWN)
        assert lines_about_storage(broker)[0].count("InternalError") == 1

        server.fault = lambda _: None
        await_local(client, 11)
        assert [record.offset for record in read_all(client)] == list(range(12))
        assert "answers again after" in lines_about_storage(broker)[1]
        assert "Traceback" not in broker.output


def test_wrong_credentials_are_one_line_without_secrets(server: S3Server, tmp_path: Path) -> None:
    """Also where a server answers 404 to an unknown key; the topic stays complete on the disk."""
    wrong = plugin(server, **{"storage.aws.access.key.id": "nobody"})
    with BucketBroker(tmp_path, wrong) as broker, TieredClient(HOST, broker.port) as client:
        fill(client)
        eventually(lambda: len(lines_about_storage(broker)), equal_to=1)
        [line] = lines_about_storage(broker)
        assert "403 Forbidden (InvalidAccessKeyId). Check the credentials; requests are tried each minute." in line
        assert SECRET_KEY not in broker.output
        assert client.special("t")[3] == 0
        resource = {"resource_type": 4, "resource_name": "1", "configuration_keys": None}
        [shown] = client.call(DESCRIBE_CONFIGS, 4, resources=[resource], include_synonyms=True).results
        assert shown.error_code == 0
        assert SECRET_KEY not in str([(each.name, each.value, each.synonyms) for each in shown.configs])
        assert [record.value for record in read_all(client)] == VALUES
        assert server.objects == {}


def test_a_wrong_clock_is_one_line_that_names_it(server: S3Server, tmp_path: Path) -> None:
    """S3 refuses signatures that are 15 minutes off. Nothing is removed, and the credentials are not blamed."""
    server.fault = lambda _: Fault.SKEWED
    with BucketBroker(tmp_path, plugin(server)) as broker, TieredClient(HOST, broker.port) as client:
        fill(client)
        eventually(lambda: len(lines_about_storage(broker)), equal_to=1)
        [line] = lines_about_storage(broker)
        assert "(RequestTimeTooSkewed): the clock of this machine is wrong. Set the clock; requests are tried" in line
        assert "credentials" not in line
        assert client.special("t")[3] == 0
        assert [record.value for record in read_all(client)] == VALUES
        assert server.objects == {}


def test_a_missing_object_hides_its_offsets_only(server: S3Server, tmp_path: Path) -> None:
    """The log does not begin later because of it, and nothing is deleted."""
    own = {
        "remote.log.storage.manager.class.name": OWN_CLASS,
        "rsm.config.url": f"s3://{BUCKET}/one",
        "rsm.config.endpoint.url": server.endpoint,
        "rsm.config.region": "us-east-1",
        "rsm.config.access.key.id": ACCESS_KEY,
        "rsm.config.secret.access.key": SECRET_KEY,
    }
    with BucketBroker(tmp_path, own) as broker, TieredClient(HOST, broker.port) as client:
        fill(client)
        await_local(client, 5)
        gone = {key: data for key, data in server.objects.items() if f"/{1:020}-" in key}
        assert len(gone) == 3
        for key in gone:
            del server.objects[key]
        left = set(server.objects)
        assert client.fetched("t", 1)["code"] == UNKNOWN
        for offset in (0, 2, 5):
            assert eventually(lambda offset=offset: client.fetched("t", offset)["batches"], until=bool)
        assert client.special("t")[1] == 0
        assert left <= set(server.objects)
        assert f"one/{PROBE}" in server.objects
        server.objects.update(gone)
        assert [record.value for record in read_all(client)] == VALUES
    command = ["--remote", "--deep", "--config", str(tmp_path / "server.properties")]
    assert verify.main(command) == 0
    del server.objects[next(iter(gone))]
    assert verify.main(command) == 1
