"""The plan for a load generator: clients, the frames that they send, and the positions of fields in the responses.

A generator does not know the protocol. This module finds the position of a number in a message by encoding the message
with different values of the number.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from protocol.framing import frame
from protocol.headers import encode_request_header
from protocol.messages.fetch import (
    FETCH,
    FetchableTopicResponse,
    FetchPartition,
    FetchTopic,
    PartitionData,
)
from protocol.messages.produce import (
    PRODUCE,
    PartitionProduceData,
    PartitionProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from protocol.schema import Api, Struct

PRODUCE_VERSION, FETCH_VERSION = 9, 11


@dataclass(frozen=True, slots=True)
class Fetching:
    """A client that fetches onward: the offset is at `offset_at` of the frame, the size of its records at `records_at`.

    All batches have the same size. A client that does not follow the end restarts at the beginning when it reaches it.
    """

    offset_at: int
    records_at: int
    batch_bytes: int
    batch_records: int
    follows: bool = False


@dataclass(frozen=True, slots=True)
class Client:
    """One connection of a group; figures are computed for each group.

    `frame`: the file with the request, or its bytes until the plan is written
    `in_flight`: the constant number of outstanding requests; or, with one at a time, `per_second` requests
    `errors_at`: positions of error codes in a response, without its size
    `record_bytes`: of records in a produce request; `limit_bytes`: the client ends when it has moved that many
    `read_bytes_per_second`: how fast the client reads responses; 0: as fast as they arrive
    `pair`: the producer and the consumer with this name share a partition of their own. The time of a fetch is then the
    time of a batch from producer to consumer, with one batch a request
    """

    group: str
    frame: bytes | str
    errors_at: tuple[int, ...]
    in_flight: int = 1
    per_second: float = 0
    record_bytes: int = 0
    limit_bytes: int = 0
    read_bytes_per_second: float = 0
    fetching: Fetching | None = None
    pair: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """Clients for the broker at `address` ("host:port"), for so many seconds. OSError: it cannot be written."""

    address: str
    seconds: float
    clients: Sequence[Client]

    def write(self, folder: Path) -> Path:
        """Write the plan, and each different frame beside it; return the plan's file."""
        names: dict[bytes | str, str] = {}
        clients = []
        for client in self.clients:
            if client.frame not in names:
                path = folder / f"frame-{len(names)}"
                assert isinstance(client.frame, bytes)
                path.write_bytes(client.frame)
                names[client.frame] = str(path)
            fields = {name: getattr(client, name) for name in Client.__dataclass_fields__}
            fields["fetching"] = client.fetching and asdict(client.fetching)
            clients.append({**fields, "frame": names[client.frame]})
        path = folder / "plan.json"
        path.write_text(json.dumps({"address": self.address, "seconds": self.seconds, "clients": clients}))
        return path


def place(encode: Callable[[int], bytes], size: int) -> int:
    """Return the position of a number of `size` bytes in a message that `encode` builds from the number."""
    one, other = encode(0), encode(-1)
    places = [at for at, (left, right) in enumerate(zip(one, other, strict=True)) if left != right]
    assert places == list(range(places[0], places[0] + size)), "the number's bytes are not contiguous"
    return places[0]


def request(api: Api, version: int, **fields: object) -> bytes:
    """Return the frame of a request."""
    return frame(encode_request_header(api, version, 7, "bench"), api.request.encode(version, api.request(**fields)))


def _answer(api: Api, version: int, response: Struct) -> bytes:
    """Return the bytes of a response, without the frame's size."""
    return bytes(4 + api.response_header_version(version)) + api.response.encode(version, response)


def producer(group: str, topic: str, partition: int, records: bytes, *, acks: int = 1) -> Client:
    """Return a client that sends a batch to a partition. Callers adapt it by dataclasses.replace."""
    data = PartitionProduceData(index=partition, records=records)
    topics = [TopicProduceData(name=topic, partition_data=[data])]

    def answer(error_code: int) -> bytes:
        answers = [PartitionProduceResponse(index=partition, error_code=error_code)]
        responses = [TopicProduceResponse(name=topic, partition_responses=answers)]
        return _answer(PRODUCE, PRODUCE_VERSION, PRODUCE.response(responses=responses))

    return Client(
        group=group,
        frame=request(PRODUCE, PRODUCE_VERSION, acks=acks, timeout_ms=60_000, topic_data=topics),
        errors_at=(place(answer, 2),),
        record_bytes=len(records),
    )


def fetch(topic: str, partitions: Sequence[int], max_bytes: int, max_wait_ms: int, offset: int = 0) -> bytes:
    """Return the frame of a Fetch without a session that waits for at least one byte."""
    wanted = [
        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=max_bytes) for index in partitions
    ]
    return request(
        FETCH,
        FETCH_VERSION,
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        session_epoch=-1,
        topics=[FetchTopic(topic=topic, partitions=wanted)],
    )


def _fetched(topic: str, partition: int, *, failed: int = 0, error_code: int = 0) -> bytes:
    data = PartitionData(partition_index=partition, error_code=error_code, aborted_transactions=None, records=b"")
    responses = [FetchableTopicResponse(topic=topic, partitions=[data])]
    return _answer(FETCH, FETCH_VERSION, FETCH.response(error_code=failed, responses=responses))


def consumer(
    group: str, topic: str, partition: int, max_bytes: int, *, batch: bytes, records: int, max_wait_ms: int = 0
) -> Client:
    """Return a client that fetches batches like `batch` of `records` each; if it waits, it follows the producers."""
    return Client(
        group=group,
        frame=fetch(topic, [partition], max_bytes, max_wait_ms),
        errors_at=(
            place(lambda code: _fetched(topic, partition, failed=code), 2),
            place(lambda code: _fetched(topic, partition, error_code=code), 2),
        ),
        fetching=Fetching(
            offset_at=place(lambda offset: fetch(topic, [partition], max_bytes, max_wait_ms, offset), 8),
            records_at=len(_fetched(topic, partition)) - 4,
            batch_bytes=len(batch),
            batch_records=records,
            follows=max_wait_ms > 0,
        ),
    )


def waiting_consumer(group: str, topic: str, partitions: Sequence[int], max_wait_ms: int) -> Client:
    """Return a client that polls empty partitions."""
    return Client(
        group=group,
        frame=fetch(topic, partitions, 1 << 20, max_wait_ms),
        errors_at=(place(lambda code: _fetched(topic, 0, failed=code), 2),),
    )
