"""Readers and writers of records in a process of their own: rows that are written are read again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from pybroker.source.bounds import EARLIEST, at_offset
from pybroker.source.columns import arrow_schema
from pybroker.source.errors import AccessDenied, BrokerFailed, DataLoss, UnknownPartition
from pybroker.source.reader import Reader
from tests.support.brokers import HOST, OurBroker
from tests.support.certificates import Authority
from tests.support.data_client import DataClient
from tests.support.ports import free_port
from tests.support.record_readers import topic_rows

COLUMNS = ("key", "value", "headers")


class TlsBroker(OurBroker):
    """A broker that also listens with TLS, on `tls_port`."""

    def __init__(self, directory: Path, authority: Authority) -> None:
        port, self.tls_port = free_port(), free_port()
        properties = {
            "listeners": f"PLAINTEXT://{HOST}:{port},SSL://{HOST}:{self.tls_port}",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(authority.issue("server")),
        }
        super().__init__(directory, properties, port=port)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[TlsBroker]:
    with TlsBroker(tmp_path_factory.mktemp("broker"), authority) as running:
        yield running


@pytest.fixture(scope="module")
def reader() -> Iterator[Reader]:
    """One process for all tests, as an error in one must not affect the next."""
    with Reader() as reader:
        yield reader


def create(broker: OurBroker, topic: str, partitions: int = 1) -> None:
    with DataClient(HOST, broker.port) as client:
        client.create_topic(topic, partitions)


def write(reader: Reader, broker: OurBroker, topic: str, rows: list[dict[str, Any]], **properties: str) -> None:
    half = len(rows) // 2
    batches = [pa.RecordBatch.from_pylist(part, arrow_schema(COLUMNS)) for part in (rows[:half], rows[half:])]
    asked = {"columns": COLUMNS, "topic": topic, "properties": {"bootstrap.servers": broker.bootstrap, **properties}}
    assert reader.send_batches("write_topic", iter(batches), **asked) == {"count": len(rows)}


def read(
    reader: Reader, broker: OurBroker, topic: str, start: int = EARLIEST, *, fail: bool = True, **properties: str
) -> list[dict[str, Any]]:
    """Return all rows, or those from an offset on, partition by partition."""
    return topic_rows(reader, broker.bootstrap, topic, COLUMNS, at_offset(start), fail=fail, **properties)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_written_rows_are_read(broker: OurBroker, reader: Reader, codec: str) -> None:
    topic = f"codec-{codec}"
    create(broker, topic, 3)
    headers = [{"key": "name", "value": b"\xff"}, {"key": "null", "value": None}]
    rows = [
        {
            "key": b"%d" % number if number % 3 else None,
            "value": b"value-%d" % number * 20 if number % 7 else None,
            "headers": headers if number % 2 else None,
        }
        for number in range(2000)
    ]
    write(reader, broker, topic, rows, **{"compression.type": codec})

    found = read(reader, broker, topic)

    assert len(found) == 2000
    assert sorted(map(repr, found)) == sorted(map(repr, rows))


def test_transactions_are_read_by_isolation_level(broker: OurBroker, reader: Reader) -> None:
    """Committed rows up to the first open transaction, or all rows."""
    create(broker, "transactions")
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "readers"})
    producer.init_transactions(30)
    for value, commit in ((b"aborted", False), (b"committed", True), (b"aborted again", False)):
        producer.begin_transaction()
        producer.produce("transactions", value)
        producer.flush(30)
        if commit:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)
    write(reader, broker, "transactions", [{"key": None, "value": b"plain", "headers": None}])
    producer.begin_transaction()
    producer.produce("transactions", b"open")
    producer.flush(30)

    committed = read(reader, broker, "transactions", **{"isolation.level": "read_committed"})
    everything = read(reader, broker, "transactions")
    producer.abort_transaction(30)

    assert [row["value"] for row in committed] == [b"committed", b"plain"]
    assert [row["value"] for row in everything] == [b"aborted", b"committed", b"aborted again", b"plain", b"open"]


def test_deleted_records_are_an_error_or_skipped(broker: OurBroker, reader: Reader) -> None:
    create(broker, "deleted")
    write(reader, broker, "deleted", [{"key": None, "value": b"%d" % number, "headers": None} for number in range(10)])
    with DataClient(HOST, broker.port) as client:
        client.delete_records("deleted", 0, 6)

    with pytest.raises(DataLoss, match="deleted-0: offset 2"):
        read(reader, broker, "deleted", 2)
    assert [row["value"] for row in read(reader, broker, "deleted", 2, fail=False)] == [b"6", b"7", b"8", b"9"]


def test_tls_is_used_for_all_brokers(broker: TlsBroker, reader: Reader, authority: Authority) -> None:
    """Leaders' addresses are those of the TLS listener. Certificates of another authority are not trusted."""
    create(broker, "tls")
    tls = {
        "bootstrap.servers": f"{HOST}:{broker.tls_port}",
        "security.protocol": "SSL",
        "ssl.ca.location": str(authority.path),
    }
    write(reader, broker, "tls", [{"key": b"k", "value": b"v", "headers": None}], **tls)
    assert read(reader, broker, "tls", **tls) == [{"key": b"k", "value": b"v", "headers": None}]

    del tls["ssl.ca.location"]
    with pytest.raises(AccessDenied, match=r"ssl\.truststore\.location"):
        read(reader, broker, "tls", **tls)


def test_missing_objects_are_one_sentence(broker: OurBroker, reader: Reader) -> None:
    with pytest.raises(UnknownPartition, match="no topic nowhere"):
        read(reader, broker, "nowhere")
    nobody = {"bootstrap.servers": f"{HOST}:{free_port()}", "request.timeout.ms": "300"}
    with pytest.raises(BrokerFailed, match="refused"):
        reader.ask("topic_ends", properties=nobody, topics=["orders"], pattern=None, assigned=None)
