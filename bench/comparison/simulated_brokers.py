"""Brokers as their controller sees them: registration, heartbeats, and fetches of the metadata log.

They have neither partitions nor clients, so a hundred of them need a few per cent of a core.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple, cast

from metadata.features import SUPPORTED_FEATURES
from metadata.loading import MetadataLoader
from protocol.client_session import ClientSession
from protocol.error_codes import ErrorCode
from protocol.messages.alter_partition import ALTER_PARTITION
from protocol.messages.broker_heartbeat import BROKER_HEARTBEAT
from protocol.messages.broker_registration import BROKER_REGISTRATION, Feature, Listener
from protocol.messages.fetch import FETCH, FetchPartition, FetchTopic, ReplicaState
from protocol.records.batch import iter_batches
from protocol.records.record import iter_batch_records
from protocol.schema import Api, Struct
from tests.support.brokers import CLUSTER_ID, HOST

_METADATA_TOPIC = bytes(15) + b"\x01"
_SIZE_BYTES = 4
#: The intervals and sizes of Apache Kafka's brokers.
HEARTBEAT_S = 2.0
_FETCH_WAIT_MS = 500
_FETCH_BYTES = 8 << 20
_REGISTRATION, _HEARTBEAT, _FETCH, _ALTER = 4, 1, 17, 3


class Channel(asyncio.Protocol):
    """A connection; its responses arrive in the order of the requests."""

    def __init__(self) -> None:
        self._session = ClientSession("simulated")
        self._received = bytearray()
        self._waiting: deque[asyncio.Future[Struct]] = deque()
        self._transport: asyncio.WriteTransport | None = None

    @classmethod
    async def connect(cls, port: int) -> Channel:
        """Connect to a controller on this machine."""
        return (await asyncio.get_running_loop().create_connection(cls, HOST, port))[1]

    async def call(self, api: Api, version: int, request: Struct) -> Struct:
        """Send a request, and return its response."""
        assert self._transport is not None
        pending, data = self._session.encode(api, version, request)
        self._session.expect(pending)
        answered: asyncio.Future[Struct] = asyncio.get_running_loop().create_future()
        self._waiting.append(answered)
        self._transport.write(data)
        return await answered

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)  # uvloop's has another base class

    def connection_lost(self, error: Exception | None) -> None:
        for each in self._waiting:
            if not each.done():
                each.set_exception(ConnectionError("the controller has closed the connection"))

    def data_received(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= _SIZE_BYTES:
            end = _SIZE_BYTES + int.from_bytes(self._received[:_SIZE_BYTES], "big")
            if len(self._received) < end:
                return
            body = bytes(self._received[_SIZE_BYTES:end])
            del self._received[:end]
            response, answered = self._session.decode(body).fields, self._waiting.popleft()
            if not answered.done():  # its caller was cancelled
                answered.set_result(response)


class Received(NamedTuple):
    """A part of the metadata log as it arrived. `time_s` is of `time.perf_counter`."""

    time_s: float
    end_offset: int
    data: bytes


class SimulatedBroker:
    """A broker.

    `wishes` are fields of its heartbeats, such as want_fence. `parts` are the parts of the log that it has received,
    until the caller removes them. `fetch_count` counts the answers to its fetches.
    """

    def __init__(self, broker_id: int, port: int) -> None:
        self.id = broker_id
        self.epoch = -1
        self.wishes: dict[str, bool] = {}
        self.end_offset = 0
        self.parts: list[Received] = []
        self.fetch_count = 0
        self._last_epoch = 0
        self._leader_epoch = 0
        self._port = port
        self._process = 0
        self._tasks: list[asyncio.Task[None]] = []
        self._requests: Channel | None = None

    @property
    def directory(self) -> bytes:
        """The id of its log directory."""
        return b"directory" + self.id.to_bytes(7, "big")

    async def connect(self) -> None:
        """Open the connection for all requests but fetches."""
        self._requests = await Channel.connect(self._port)

    async def call(self, api: Api, version: int, request: Struct) -> Struct:
        """Send a request to the controller, and return its response."""
        assert self._requests is not None
        return await self._requests.call(api, version, request)

    async def register(self) -> None:
        """Register as a new process."""
        self._process += 1
        request = BROKER_REGISTRATION.request(
            broker_id=self.id,
            cluster_id=CLUSTER_ID,
            incarnation_id=b"process" + self._process.to_bytes(4, "big") + self.id.to_bytes(5, "big"),
            listeners=[Listener(name="PLAINTEXT", host=HOST, port=10_000 + self.id, security_protocol=0)],
            features=[
                Feature(name=name, min_supported_version=lowest, max_supported_version=highest)
                for name, (lowest, highest) in SUPPORTED_FEATURES.items()
            ],
            rack=None,
            log_dirs=[self.directory],
        )
        answer = await self.call(BROKER_REGISTRATION, _REGISTRATION, request)
        assert not answer.error_code, ErrorCode(answer.error_code)
        self.epoch = answer.broker_epoch

    async def beat(self) -> Struct:
        """Send a heartbeat, and return its response. A controller that is too slow is asked again, as brokers do."""
        while True:
            offset = max(self.end_offset - 1, self.epoch)
            request = BROKER_HEARTBEAT.request(
                broker_id=self.id, broker_epoch=self.epoch, current_metadata_offset=offset, **self.wishes
            )
            answer = await self.call(BROKER_HEARTBEAT, _HEARTBEAT, request)
            if answer.error_code != ErrorCode.REQUEST_TIMED_OUT:
                assert not answer.error_code, ErrorCode(answer.error_code)
                return answer

    async def unfence(self) -> None:
        """Send heartbeats until the controller lets the broker lead."""
        self.wishes = {}
        while (await self.beat()).is_fenced:
            await asyncio.sleep(0.02)

    async def alter(self, topics: Sequence[Struct]) -> Struct:
        """Send AlterPartition, and return its response."""
        request = ALTER_PARTITION.request(broker_id=self.id, broker_epoch=self.epoch, topics=list(topics))
        answer = await self.call(ALTER_PARTITION, _ALTER, request)
        assert not answer.error_code, ErrorCode(answer.error_code)
        return answer

    # ---- by itself

    def live(self, first_s: float) -> None:
        """Send heartbeats from now on, the first one after `first_s`."""
        self._tasks.append(asyncio.create_task(self._live(first_s)))

    async def _live(self, first_s: float) -> None:
        await asyncio.sleep(first_s)
        while True:
            await self.beat()
            await asyncio.sleep(HEARTBEAT_S)

    def follow(self) -> None:
        """Fetch the metadata log from now on."""
        self._tasks.append(asyncio.create_task(self._follow()))

    async def _follow(self) -> None:
        channel = await Channel.connect(self._port)
        try:
            while True:
                self._take(await channel.call(FETCH, _FETCH, self._fetch()))
        finally:
            channel.close()

    def _fetch(self) -> Struct:
        partition = FetchPartition(
            partition=0,
            current_leader_epoch=self._leader_epoch,
            fetch_offset=self.end_offset,
            last_fetched_epoch=self._last_epoch,
            partition_max_bytes=_FETCH_BYTES,
            replica_directory_id=self.directory,
        )
        return FETCH.request(
            cluster_id=CLUSTER_ID,
            replica_state=ReplicaState(replica_id=self.id),
            max_wait_ms=_FETCH_WAIT_MS,
            max_bytes=_FETCH_BYTES,
            topics=[FetchTopic(topic_id=_METADATA_TOPIC, partitions=[partition])],
        )

    def _take(self, answer: Struct) -> None:
        self.fetch_count += 1
        partition = answer.responses[0].partitions[0]
        self._leader_epoch = partition.current_leader.leader_epoch
        if partition.error_code == ErrorCode.FENCED_LEADER_EPOCH:  # it knows the epoch now
            return
        assert not partition.error_code, ErrorCode(partition.error_code)
        assert partition.snapshot_id.end_offset < 0, "simulated brokers read no snapshots"
        data = bytes(partition.records or b"")
        for _, header in iter_batches(data):
            self.end_offset, self._last_epoch = header.next_offset, header.leader_epoch
        if data:
            self.parts.append(Received(time.perf_counter(), self.end_offset, data))

    def check(self) -> None:
        """Raise the error of what it does by itself, if there is one."""
        for each in self._tasks:
            if each.done():
                each.result()

    def rest(self) -> None:
        """Send nothing by itself any more."""
        for each in self._tasks:
            each.cancel()
        self._tasks.clear()

    def close(self) -> None:
        """Stop, and close the connections."""
        self.rest()
        if self._requests is not None:
            self._requests.close()


class MetadataView:
    """The image of the cluster's metadata, from the parts of the log that a broker has received."""

    def __init__(self, source: SimulatedBroker) -> None:
        self._source = source
        self._loader = MetadataLoader()
        self.image = self._loader.image

    def apply_next(self) -> Received | None:
        """Apply the next part, and return it; None if there is none."""
        if not self._source.parts:
            return None
        part = self._source.parts.pop(0)
        for position, header in iter_batches(part.data):
            if header.is_control:
                continue
            for record in iter_batch_records(memoryview(part.data)[position : position + header.size_bytes], header):
                assert record.value is not None
                self._loader.feed_value(bytes(record.value))
        return part

    def apply_all(self) -> None:
        """Apply all parts that have arrived."""
        while self.apply_next() is not None:
            pass
