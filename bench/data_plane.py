"""Measure Produce and Fetch without sockets: `python -m bench.data_plane [DIRECTORY]`.

A figure is the time from the bytes of a request to the pieces of its response, with log files below DIRECTORY (default:
in memory): the best of many short rounds, in microseconds of one core. It includes the system calls for the files; the
time of `write` alone is shown beside it.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from timeit import repeat
from types import SimpleNamespace

from protocol.headers import encode_request_header
from protocol.messages.fetch import FETCH, FetchPartition, FetchTopic
from protocol.messages.produce import PRODUCE, PartitionProduceData, TopicProduceData
from protocol.records.builder import BatchBuilder
from protocol.schema import Api
from runtime.clock import Clock
from storage.fetch_slice import FetchSlice
from tests.support.data_broker import TOPIC_ID, DataBroker
from tests.support.offered import dispatcher_for

ROUNDS = 40
CALLS = 200
CONNECTION = SimpleNamespace(client_host="127.0.0.1", local_host="127.0.0.1", local_port=9092, listener_name="L")


def measure(name: str, call: Callable[[], object], calls: int = CALLS) -> None:
    call()
    best = min(repeat(call, number=calls, repeat=ROUNDS, timer=time.process_time)) / calls
    print(f"{name:52} {best * 1e6:6.1f} us")


def batch(count: int = 1, size: int = 100) -> bytes:
    builder = BatchBuilder()
    for _ in range(count):
        builder.append(time.time_ns() // 1_000_000, None, b"v" * size)
    return builder.build()


def frame(api: Api, version: int, **fields: object) -> bytes:
    request = api.request(**fields)
    return encode_request_header(api, version, 7, "producer-1") + api.request.encode(version, request)


def produce_frame(version: int, records: bytes, partitions: int = 1) -> bytes:
    data = [PartitionProduceData(index=index, records=records) for index in range(partitions)]
    topic = TopicProduceData(name="t", topic_id=TOPIC_ID, partition_data=data)
    return frame(PRODUCE, version, acks=-1, timeout_ms=30_000, topic_data=[topic])


def fetch_frame(version: int, offset: int) -> bytes:
    partitions = [FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)]
    topic = (
        FetchTopic(topic_id=TOPIC_ID, partitions=partitions)
        if version >= 13
        else FetchTopic(topic="t", partitions=partitions)
    )
    return frame(FETCH, version, max_wait_ms=0, min_bytes=1, max_bytes=50 << 20, session_epoch=-1, topics=[topic])


def fetch_many_frame(version: int, partitions: int, session_id: int = 0, session_epoch: int = -1) -> bytes:
    """Return a Fetch of all partitions from their beginnings, by topic id."""
    wanted = [FetchPartition(partition=index, partition_max_bytes=1 << 20) for index in range(partitions)]
    of_session = {"session_id": session_id, "session_epoch": session_epoch}
    topics = [FetchTopic(topic_id=TOPIC_ID, partitions=wanted)]
    return frame(FETCH, version, max_wait_ms=0, min_bytes=1, max_bytes=50 << 20, topics=topics, **of_session)


def main() -> None:
    directory = Path(tempfile.mkdtemp(dir=sys.argv[1] if len(sys.argv) > 1 else "/dev/shm"))
    try:
        run(directory)
    finally:
        shutil.rmtree(directory)


def run(directory: Path) -> None:
    broker = DataBroker(directory)
    broker.clock = Clock()  # type: ignore[assignment]
    broker.topic(partitions=5)
    dispatcher = dispatcher_for(broker)

    def serve(data: bytes) -> None:
        # A fresh buffer each time, as from the network: an append patches offsets in place.
        answer = dispatcher.dispatch(CONNECTION, memoryview(bytearray(data)))
        for chunk in answer if isinstance(answer, list) else ():
            if isinstance(chunk, FetchSlice):
                chunk.release()

    small, medium = batch(), batch(100)
    for name, data, calls in (
        ("produce v13, 1 record of 100 B", produce_frame(13, small), CALLS),
        ("produce v9, 1 record of 100 B", produce_frame(9, small), CALLS),
        ("produce v7, 1 record of 100 B", produce_frame(7, small), CALLS),
        ("produce v12, 5 partitions of 1 record", produce_frame(12, small, 5), CALLS),
        ("produce v12, 100 records of 100 B", produce_frame(12, medium), CALLS),
        ("produce v12, 1 MB", produce_frame(12, batch(1000, 1000)), 5),  # 200 MB in all
    ):
        measure(name, lambda data=data: serve(data), calls)  # type: ignore[misc]
    handle = os.open(directory / "file", os.O_RDWR | os.O_CREAT)
    measure("write of 1 record of 100 B alone", lambda: os.pwrite(handle, small, 0))
    os.close(handle)
    broker.partitions.delete("t")
    log = broker.topic().log
    for _ in range(2000):
        log.append(medium, leader_epoch=0, now_ms=broker.clock.now_ms())
    for name, data in (
        ("fetch v17, the last 11 kB", fetch_frame(17, log.log_end_offset - 100)),
        ("fetch v17, 1 MiB from the middle", fetch_frame(17, 5)),
        ("fetch v17, nothing new", fetch_frame(17, log.log_end_offset)),
        ("fetch v11, the last 11 kB", fetch_frame(11, log.log_end_offset - 100)),
    ):
        measure(name, lambda data=data: serve(data))  # type: ignore[misc]


if __name__ == "__main__":
    main()
