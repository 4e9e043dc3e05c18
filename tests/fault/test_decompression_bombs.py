"""Batches of a few bytes whose records take gigabytes: rejected if the broker opens them, harmless if it does not.

The broker accepts the batches of a topic by their headers, unless something needs their records; see
docs/decisions/header-validation.md. A good client is served all the while, and the memory is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.fetch import FETCH, FetchPartition, FetchTopic
from protocol.messages.list_offsets import LIST_OFFSETS, ListOffsetsPartition, ListOffsetsTopic
from protocol.records.batch import iter_batches
from protocol.records.compression import Codec
from tests.support.bombs import LATER_MS, large_record, small_records
from tests.support.brokers import HOST, OurBroker
from tests.support.data_client import DataClient, Refused, batch
from tests.support.eventually import eventually
from tests.support.good_client import GoodThread
from tests.support.processes import MemoryWatch
from tests.support.scale import SCALE, scaled

MIB = 1 << 20
CODECS = [codec for codec in Codec if codec]
#: Except for the first, each is more than the 256 MiB that a batch of 16 MiB may decompress to; lz4 and snappy, more.
SIZES = [MIB, 300 * MIB] if SCALE <= 1 else [MIB, 300 * MIB, 1024 * MIB, 10240 * MIB]
MOST_BYTES = 16 * MIB
#: Clients that request all bombs at the same time. Each bomb keeps both cores busy for two seconds.
CLIENTS = min(scaled(3), 40)
#: How much the broker's own memory may grow: some requests of 16 MiB. It decompresses almost nothing itself.
GROWTH_BYTES = 128 * MIB
#: The memory of all workers: two at a time with 256 MiB each, twice, and their own.
WORKERS_BYTES = 1280 * MIB
PROPERTIES = {
    "message.max.bytes": str(MOST_BYTES),
    "pybroker.legacy.versions": "true",
    "log.cleaner.backoff.ms": "100",
    "num.io.threads": "2",
}
#: Topics whose records are opened when they are produced.
OPENED = {"keyed": {"cleanup.policy": "compact"}, "repacked": {"compression.type": "uncompressed"}}
#: The errors for consumers that do not know batches; zstd has only this one.
NOT_CONVERTED = {
    *(ErrorCode.NONE, ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.CORRUPT_MESSAGE),
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
}


pytestmark = pytest.mark.broker(OurBroker, PROPERTIES)


@pytest.fixture
def watch(broker: OurBroker) -> Iterator[None]:
    """A good client works beside the test. The memory of the broker and its workers stays bounded."""
    good = GoodThread(broker.port)
    good.start()
    before = MemoryWatch(broker.pid).own_bytes
    with MemoryWatch(broker.pid) as memory:
        yield
    found = good.finish()
    growth = memory.own_bytes - before
    print(f"{growth >> 20} MiB more at most, workers {memory.children_bytes >> 20} MiB; ", end="")
    print(f"good client: p99 {found.p99_ms():.1f} ms, worst {found.worst_ms():.1f} ms")
    assert growth < GROWTH_BYTES
    assert memory.children_bytes < WORKERS_BYTES
    assert broker.stop() == 0
    assert "Traceback" not in broker.output


def bombs() -> Iterator[tuple[int, bytes]]:
    """Return each bomb with its decompressed size."""
    for codec in CODECS:
        for size in SIZES:
            made = [large_record(size, codec)]
            if size == MIB or SCALE > 1:
                made.append(small_records(size, codec))
            yield from ((size, each) for each in made if len(each) < MOST_BYTES)


def code_of(client: DataClient, topic: str, records: bytes) -> ErrorCode:
    try:
        client.produce(topic, records)
    except Refused as error:
        return error.code
    return ErrorCode.NONE


@pytest.mark.usefixtures("watch")
def test_bombs_are_refused_where_records_are_opened(broker: OurBroker) -> None:
    """A bomb that is too large fails by its size; another by its own error, if it has one, as in Apache Kafka."""
    found: dict[str, dict[bool, set[ErrorCode]]] = {topic: {True: set(), False: set()} for topic in OPENED}
    with DataClient(HOST, broker.port, timeout_s=300) as client:
        for topic, configs in OPENED.items():
            client.create_topic(topic, configs=configs)
        for size, made in bombs():
            for topic in OPENED:
                found[topic][size > MOST_BYTES].add(code_of(client, topic, made))
        for topic in OPENED:
            client.produce(topic, batch(b"value", key=b"key"))
    for codes in found.values():
        assert codes[True] == {ErrorCode.MESSAGE_TOO_LARGE}
    # No key; and compressed records that all claim offset 0. Neither is an error where they are re-encoded.
    assert found["keyed"][False] == {ErrorCode.INVALID_RECORD, ErrorCode.UNKNOWN_SERVER_ERROR}
    assert found["repacked"][False] <= {ErrorCode.NONE, ErrorCode.UNKNOWN_SERVER_ERROR}


@pytest.mark.usefixtures("watch")
def test_bombs_in_a_log_are_found_by_time_where_they_begin(broker: OurBroker) -> None:
    """The headers were accepted, and promise a later time than any record has. No look-up reads all the records.

    A look-up by timestamp returns the first of their offsets, so the consumer misses nothing.
    """
    with DataClient(HOST, broker.port, timeout_s=300) as client:
        for number, (size, made) in enumerate(bombs()):
            topic = f"plain-{number}"
            client.create_topic(topic)
            assert client.produce(topic, batch(b"before", timestamp=1000)) == 0
            assert client.produce(topic, made) == 1
            [(_, header)] = iter_batches(made)
            latest = header.max_timestamp
            found = {at: client.offset_for_timestamp(topic, at) for at in (1, latest - LATER_MS, latest - 1, -3)}
            looked_into = size == MIB and header.record_count == 1  # and nothing in it is so late
            assert found == {1: 0, latest - LATER_MS: 1, latest - 1: -1 if looked_into else 1, -3: 1}


@pytest.mark.full_size
@pytest.mark.usefixtures("watch")
def test_many_look_ups_in_bombs_at_a_time_wait_for_each_other(broker: OurBroker) -> None:
    """Many clients look up all of them at once, and half of the clients disconnect."""
    topics = []
    with DataClient(HOST, broker.port, timeout_s=300) as client:
        for number, (_, made) in enumerate(bombs()):
            wanted = ListOffsetsPartition(partition_index=0, timestamp=-3, current_leader_epoch=-1)
            topics.append(ListOffsetsTopic(name=f"plain-{number}", partitions=[wanted]))
            client.create_topic(f"plain-{number}")
            client.produce(f"plain-{number}", made)

    def ask(timeout_s: float) -> list[int]:
        with DataClient(HOST, broker.port, timeout_s=timeout_s) as client:
            found = client.call(LIST_OFFSETS, 7, replica_id=-1, isolation_level=0, topics=topics)
        return [each.partitions[0].offset for each in found.topics]

    with ThreadPoolExecutor(2 * CLIENTS) as pool:
        gone = [pool.submit(ask, 0.05) for _ in range(CLIENTS)]
        answers = [pool.submit(ask, 900) for _ in range(CLIENTS)]
        assert all(each.result() == [0] * len(topics) for each in answers)
        assert sum(isinstance(each.exception(), OSError) for each in gone) > 0


@pytest.mark.usefixtures("watch")
def test_bombs_in_a_log_are_not_converted(broker: OurBroker) -> None:
    """Consumers of the old formats get an error, or what can be converted. Newer consumers get the batch."""
    with DataClient(HOST, broker.port, timeout_s=300) as client:
        client.create_topic("plain")
        for _, made in bombs():
            offset = client.produce("plain", made)
            wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=MIB)
            topics = [FetchTopic(topic="plain", partitions=[wanted])]
            answer = client.call(FETCH, 3, replica_id=-1, max_wait_ms=0, min_bytes=0, max_bytes=MIB, topics=topics)
            code = ErrorCode(answer.responses[0].partitions[0].error_code)
            assert code in NOT_CONVERTED, code
            assert len(client.fetch("plain", offset, max_bytes=MIB).records) >= len(made)


@pytest.mark.usefixtures("watch")
def test_bombs_stop_the_cleaner_of_their_partition_alone(broker: OurBroker) -> None:
    """Their partition is cleaned, or its cleaning ends with a log line. Other partitions are cleaned."""
    segments = {"late": MOST_BYTES, "other": 4096}
    with DataClient(HOST, broker.port, timeout_s=300) as client:
        for topic, size in segments.items():
            client.create_topic(topic, configs={"internal.segment.bytes": size, "min.cleanable.dirty.ratio": 0.01})
        for _, made in bombs():
            client.produce("late", made)
        for _ in range(2):  # one more segment, so that those with the bombs are due for cleaning
            client.produce("late", batch(bytes(MOST_BYTES * 5 // 8), key=b"key"))
        for _ in range(100):
            client.produce("other", batch(bytes(1000), key=b"key"))
        for topic in segments:
            client.set_topic_config(topic, "cleanup.policy", "compact")
        eventually(
            lambda: len(client.read_all("other")) <= 50 and is_met(broker), "a topic is not cleaned", timeout_s=120
        )
        client.produce("late", batch(b"value", key=b"key"))


def is_met(broker: OurBroker) -> bool:
    """Return whether a cleaner has reached the bombs: it went past them, or reported that they cannot be cleaned."""
    path = broker.log_dir / "cleaner-offset-checkpoint"
    cleaned = path.exists() and any(line.startswith("late 0 ") for line in path.read_text().splitlines())
    return cleaned or "late-0" in broker.output
