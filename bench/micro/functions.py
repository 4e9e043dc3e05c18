"""The measured functions: each prepares what it needs in a folder of its own, and returns the call to measure.

They are the functions of docs/how-it-works/hot-path.md that do most of the work, alone, and both whole paths from the
frame to the response. Apart from growing logs, a call leaves nothing behind that later calls would notice.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

from bench.data_plane import CONNECTION, fetch_frame, fetch_many_frame, produce_frame
from bench.storage_log import T0, NoWrites, appender, batch, new_log
from broker.network.output_queue import joined
from protocol.fast_path.fetch_answer import answer_one
from protocol.fast_path.plain_produce import parse_one
from protocol.fast_path.single_fetch import parse
from protocol.headers import decode_request_header
from protocol.messages.fetch import FETCH, FetchableTopicResponse, FetchPartition, FetchTopic, PartitionData
from protocol.messages.metadata import METADATA, MetadataResponsePartition, MetadataResponseTopic
from protocol.records.batch import parse_header, verify_crc
from protocol.schema import Chunk
from runtime.clock import Clock
from storage.append.header_validation import AppendOrigin, check_header
from storage.fetch_slice import FetchSlice
from storage.log.partition_log import PartitionLog
from storage.log_config import LogConfig
from storage.producers.state import ProducerState
from tests.support.data_broker import TOPIC_ID, DataBroker
from tests.support.offered import dispatcher_for

Call = Callable[[], object]
Prepare = Callable[[Path], Call]

#: Functions by their names in the baseline. The first is the reference.
FUNCTIONS: dict[str, Prepare] = {}
REFERENCE = "reference"

_PRODUCE_VERSION, _FETCH_VERSION = 13, 17
_APPENDED = 2000
_MANY = 10
#: The position of the session's id in a response: after size, correlation id, no tags, throttle time, error code; and
#: of its epoch in the body of a request.
_SESSION_AT, _EPOCH_AT = 15, 17


def _named(name: str) -> Callable[[Prepare], Prepare]:
    def register(prepare: Prepare) -> Prepare:
        FUNCTIONS[name] = prepare
        return prepare

    return register


@_named(REFERENCE)
def _reference(folder: Path) -> Call:
    """Return a call with the elements of the hot path: calls, attributes, a dict, numbers packed and unpacked."""
    layout = struct.Struct(">hqi")
    found = SimpleNamespace(total=0)
    table = {number: number + 1 for number in range(64)}

    def step(number: int) -> int:
        _, value, least = layout.unpack(layout.pack(7, table[number], number))
        return value - least if value > least else 0

    def call() -> None:
        found.total = 0
        for number in range(64):
            found.total += step(number)

    return call


@_named("read a Produce request")
def _read(folder: Path) -> Call:
    data, position = _frame(produce_frame(_PRODUCE_VERSION, bytes(batch(100))))
    return lambda: parse_one(_PRODUCE_VERSION, data, position)


@_named("parse a batch's header")
def _header(folder: Path) -> Call:
    records = batch(100)
    return lambda: parse_header(records)


@_named("checksum of 1 MB")
def _checksum(folder: Path) -> Call:
    records = batch(1000, 1000)
    return lambda: verify_crc(records, 0, len(records))


@_named("check a batch of 1 record")
def _check(folder: Path) -> Call:
    records, config = batch(100), LogConfig()
    return lambda: check_header(records, config, AppendOrigin.CLIENT, T0)


@_named("append 1 record, without the system call")
def _append(folder: Path) -> Call:
    return appender(new_log(folder, "log", fs=NoWrites()), batch(100))


@_named("check a producer's sequence number")
def _sequence(folder: Path) -> Call:
    state = ProducerState()
    state.add_batch(1, 0, 0, last_offset=9, offset_delta=9, timestamp=T0, transactional=False)
    return lambda: state.check(1, 0, 10, 9)


@_named("parse a Fetch request")
def _parse(folder: Path) -> Call:
    data, position = _frame(fetch_frame(_FETCH_VERSION, 5))
    return lambda: parse(_FETCH_VERSION, data, position)


@_named("read at the tail")
def _read_tail(folder: Path) -> Call:
    log = _filled(folder)
    end = log.log_end_offset
    return lambda: _released(log.read(end - 10, 1 << 20, end))


@_named("read somewhere, by the index")
def _read_somewhere(folder: Path) -> Call:
    log = _filled(folder)
    end = log.log_end_offset
    offsets = SimpleNamespace(next=0)

    def call() -> None:
        offsets.next = (offsets.next + 7919) % (end // 2)
        _released(log.read(offsets.next, 12_000, end))

    return call


@_named("answer a Fetch")
def _answer(folder: Path) -> Call:
    data, position = _frame(fetch_frame(_FETCH_VERSION, 5))
    request = parse(_FETCH_VERSION, data, position)
    assert request is not None
    records = memoryview(bytes(12_000))  # as a slice of a file: its bytes are not in memory
    return lambda: answer_one(_FETCH_VERSION, 7, 1, request.key, 0, 2, 3, 4, records)


@_named("join the pieces of eight answers")
def _joined(folder: Path) -> Call:
    pieces: list[Chunk] = [bytes(60) for _ in range(8)]
    return lambda: joined(pieces)


@_named("decode a Fetch request of 100 partitions")
def _decode(folder: Path) -> Call:
    wanted = [FetchPartition(partition=index, fetch_offset=5, partition_max_bytes=1 << 20) for index in range(100)]
    request = FETCH.request(max_wait_ms=500, topics=[FetchTopic(topic_id=TOPIC_ID, partitions=wanted)])
    body = memoryview(FETCH.request.encode(_FETCH_VERSION, request))
    return lambda: FETCH.request.decode(_FETCH_VERSION, body)


@_named("encode a Fetch response of 100 partitions")
def _encode(folder: Path) -> Call:
    data = [PartitionData(partition_index=index, high_watermark=5, records=b"") for index in range(100)]
    response = FETCH.response(responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=data)])
    return lambda: FETCH.response.encode(_FETCH_VERSION, response)


@_named("encode a Metadata response of 100 partitions")
def _metadata(folder: Path) -> Call:
    partitions = [
        MetadataResponsePartition(partition_index=index, leader_id=1, replica_nodes=[1], isr_nodes=[1])
        for index in range(100)
    ]
    response = METADATA.response(topics=[MetadataResponseTopic(name="t", partitions=partitions)])
    return lambda: METADATA.response.encode(12, response)


@_named("Produce of 1 record, from the frame to the answer")
def _produce(folder: Path) -> Call:
    return _serving(folder, lambda broker: produce_frame(_PRODUCE_VERSION, bytes(batch(100))))


@_named("Produce of 5 partitions, from the frame to the answer")
def _produce_several(folder: Path) -> Call:
    return _serving(folder, lambda broker: produce_frame(_PRODUCE_VERSION, bytes(batch(100)), 5))


@_named("Fetch of 11 kB, from the frame to the answer")
def _fetch(folder: Path) -> Call:
    def last(broker: DataBroker) -> bytes:
        partition = broker.partitions.get("t", 0)
        assert partition is not None
        appender(partition.log, batch(100, 100))()
        return fetch_frame(_FETCH_VERSION, 0)

    return _serving(folder, last)


@_named("Produce of 10 partitions of 100 B, from the frame to the answer")
def _produce_ten(folder: Path) -> Call:
    return _serving(folder, lambda broker: produce_frame(_PRODUCE_VERSION, bytes(batch(100)), _MANY))


@_named("Produce of 10 partitions of 10 kB, from the frame to the answer")
def _produce_ten_large(folder: Path) -> Call:
    return _serving(folder, lambda broker: produce_frame(_PRODUCE_VERSION, bytes(batch(10_000)), _MANY))


@_named("Fetch of 10 partitions, from the frame to the answer")
def _fetch_ten(folder: Path) -> Call:
    return _serving(folder, lambda broker: fetch_many_frame(_FETCH_VERSION, _with_records(broker)))


@_named("Fetch of 10 partitions in a session, from the frame to the answer")
def _fetch_ten_in_session(folder: Path) -> Call:
    broker = _broker(folder)
    dispatcher = dispatcher_for(broker)
    partitions = _with_records(broker)
    first = fetch_many_frame(_FETCH_VERSION, partitions, session_epoch=0)
    answer = dispatcher.dispatch(CONNECTION, memoryview(bytearray(first)))
    session_id = int.from_bytes(bytes(answer[0])[_SESSION_AT : _SESSION_AT + 4], "big")  # type: ignore[index,arg-type]
    data = bytearray(fetch_many_frame(_FETCH_VERSION, partitions, session_id=session_id, session_epoch=1))
    epoch_at = decode_request_header(memoryview(data)).position + _EPOCH_AT
    epochs = SimpleNamespace(next=0)

    def call() -> None:
        epochs.next += 1
        struct.pack_into(">i", data, epoch_at, epochs.next)
        _release_all(dispatcher.dispatch(CONNECTION, memoryview(data)))

    return call


def _with_records(broker: DataBroker) -> int:
    """Give each partition a batch of 11 kB; return the number of partitions."""
    for partition in broker.partitions:
        appender(partition.log, batch(100, 100))()
    return len(broker.partitions)


def _frame(data: bytes) -> tuple[memoryview, int]:
    """Return a request's frame, and where its body begins."""
    view = memoryview(bytearray(data))
    return view, decode_request_header(view).position


def _filled(folder: Path) -> PartitionLog:
    log = new_log(folder, "log", LogConfig(segment_bytes=4 << 20))
    call = appender(log, batch(1000, 10))
    for _ in range(_APPENDED):
        call()
    return log


def _released(records: FetchSlice | bytes) -> None:
    if isinstance(records, FetchSlice):
        records.release()


def _broker(folder: Path) -> DataBroker:
    broker = DataBroker(folder)
    broker.clock = Clock()  # type: ignore[assignment]
    broker.topic(partitions=_MANY)
    return broker


def _serving(folder: Path, request: Callable[[DataBroker], bytes]) -> Call:
    broker = _broker(folder)
    dispatcher = dispatcher_for(broker)
    data = request(broker)

    def call() -> None:
        # A fresh buffer each time, as from the network: an append patches offsets in place.
        _release_all(dispatcher.dispatch(CONNECTION, memoryview(bytearray(data))))

    return call


def _release_all(answer: object) -> None:
    for chunk in answer if isinstance(answer, list) else ():
        if isinstance(chunk, FetchSlice):
            chunk.release()
