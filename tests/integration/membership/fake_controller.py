"""A controller in memory, for tests of members without a JVM. It decides with `metadata/`, and answers over sockets.

Tests change its attributes while it runs: what it holds back, how it fails, which epoch it leads.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from controller.metadata_snapshot import Quorum, build_snapshot, metadata_batch
from metadata.bulk_records import Changes
from metadata.create_topics import NewTopic, NewTopicResult, TopicDefaults, create_topics
from metadata.features import BOOTSTRAP_FEATURES, CONTROLLER_REGISTRATION_LEVEL
from metadata.image import Endpoint, MetadataImage
from metadata.registration import (
    NodeIdentity,
    assign_directories,
    bootstrap_records,
    feature_records,
    leave,
    register_broker,
    unfence_broker,
)
from metadata.replay import replay_all
from metadata.snapshot import image_records
from protocol.error_codes import ErrorCode
from protocol.framing import encode_response
from protocol.headers import decode_request_header
from protocol.messages import describe_quorum, fetch, fetch_snapshot
from protocol.messages.allocate_producer_ids import ALLOCATE_PRODUCER_IDS
from protocol.messages.api_versions import API_VERSIONS, ApiVersion
from protocol.messages.assign_replicas_to_dirs import (
    ASSIGN_REPLICAS_TO_DIRS,
    ResponseDirectoryData,
    ResponsePartitionData,
    ResponseTopicData,
)
from protocol.messages.broker_heartbeat import BROKER_HEARTBEAT
from protocol.messages.broker_registration import BROKER_REGISTRATION
from protocol.messages.create_topics import CREATE_TOPICS, CreatableTopicResult
from protocol.messages.data import DefaultPrincipalData
from protocol.messages.describe_cluster import DESCRIBE_CLUSTER
from protocol.messages.describe_quorum import DESCRIBE_QUORUM, ReplicaState
from protocol.messages.envelope import ENVELOPE
from protocol.messages.incremental_alter_configs import INCREMENTAL_ALTER_CONFIGS, AlterConfigsResourceResponse
from protocol.records.builder import BatchBuilder
from protocol.records.control import build_control_batch
from protocol.registry import API_BY_KEY
from protocol.schema import Api, Struct
from runtime.ids import random_id
from tests.support.ports import HOST

METADATA_TOPIC_ID = bytes(15) + b"\x01"
NODE_ID = 100
_APIS = (
    API_VERSIONS,
    DESCRIBE_CLUSTER,
    fetch.FETCH,
    fetch_snapshot.FETCH_SNAPSHOT,
    BROKER_REGISTRATION,
    BROKER_HEARTBEAT,
    ENVELOPE,
    ALLOCATE_PRODUCER_IDS,
    CREATE_TOPICS,
    DESCRIBE_QUORUM,
    INCREMENTAL_ALTER_CONFIGS,
    ASSIGN_REPLICAS_TO_DIRS,
)

#: Frames beyond it end their connection, as by socket.request.max.bytes.
_MOST_BYTES = 1 << 24


class FakeController:
    """The active controller of a cluster of its own.

    Attributes:
        refusals: errors with which the next registrations are answered.
        high_watermark: the end of what is committed; None: all.
        is_active: whether it answers as the active controller. Otherwise the requests get NOT_CONTROLLER.
        requests: each as (name of the API, request).
        principals: those of the envelopes.
        create_topics_versions: the first and the last version of CreateTopics.
        on_assignment: called with the log directory of each assignment, before it is written.
        throttle_ms: the throttle time in its answers to CreateTopics.
        distort: returns what is sent instead of an answer, by the name of its API.
        static_voters: the voters that it describes, which are not in the log.
    """

    def __init__(self, cluster_id: str, features: Mapping[str, int] = BOOTSTRAP_FEATURES) -> None:
        self.cluster_id = cluster_id
        self.image = MetadataImage()
        self.epoch = 1
        self.refusals: list[ErrorCode] = []
        self.high_watermark: int | None = None
        self.is_active = True
        self.requests: list[tuple[str, Struct]] = []
        self.principals: list[str] = []
        self.port = 0
        self.create_topics_versions = (2, 6)
        self.throttle_ms = 0
        self.static_voters = (NODE_ID,)
        self.distort: Callable[[str, Struct], Struct] = lambda name, answer: answer
        self.on_assignment: Callable[[bytes], object] = lambda directory_id: None
        self._batches: list[tuple[int, int, bytes]] = []  # base offset, epoch, bytes
        self._snapshot: tuple[int, int, bytes] | None = None
        self._lock = threading.Condition()
        self._end = 0
        self.write(bootstrap_records(feature_records(features)))

    # -- the log -----------------------------------------------------------------------------------------------------

    @property
    def end_offset(self) -> int:
        return self._end

    def write(self, records: Sequence[Changes]) -> int:
        """Append a batch; return the offset of its first record."""
        with self._lock:
            base = self._end
            data = metadata_batch(records, 1_000, base_offset=base, leader_epoch=self.epoch)
            self._batches.append((base, self.epoch, data))
            replay_all(self.image, records)
            self._end = base + int.from_bytes(data[57:61], "big")  # the number of records in the batch
            self._lock.notify_all()
            return base

    def write_raw(self, value: bytes) -> None:
        """Append a batch of one record, which need not be metadata."""
        with self._lock:
            builder = BatchBuilder(self._end, leader_epoch=self.epoch)
            builder.extend(1_000, [(None, value)])
            self._batches.append((self._end, self.epoch, builder.build()))
            self._end += 1
            self._lock.notify_all()

    def write_voters(self, quorum: Quorum) -> None:
        """Append the voters."""
        with self._lock:
            data = build_control_batch(quorum.control_records(), 1_000, base_offset=self._end, leader_epoch=self.epoch)
            self._batches.append((self._end, self.epoch, data))
            self._end += 2

    def create(self, *topics: NewTopic) -> list[NewTopicResult]:
        """Create topics."""
        decision = create_topics(
            self.image,
            topics,
            defaults=TopicDefaults(1, 1),
            check_config=lambda _: None,
            new_topic_id=random_id,
            random_below=lambda _: 0,
        )
        if decision.records:
            self.write(decision.records)
        return decision.results

    def forget_from(self, offset: int) -> None:
        """Lose the records from an offset on, and lead the next epoch."""
        with self._lock:
            self._batches = [each for each in self._batches if each[0] < offset]
            self._end, self.epoch = offset, self.epoch + 1
            self._lock.notify_all()

    def keep_only_a_snapshot(self) -> None:
        """Replace the log by a snapshot of the image."""
        with self._lock:
            data = build_snapshot(image_records(self.image), 1_000, epoch=self.epoch)
            self._snapshot = self._end, self.epoch, data
            self._batches = []
            self._lock.notify_all()

    def named(self, api: Api) -> list[Struct]:
        """Return the requests of an API so far."""
        return [request for name, request in self.requests if name == api.name]

    # -- requests ----------------------------------------------------------------------------------------------------

    def answer(self, api: Api, request: Struct) -> Struct:
        self.requests.append((api.name, request))
        handlers: dict[str, Callable[[Any], Struct]] = {
            API_VERSIONS.name: self._api_versions,
            DESCRIBE_CLUSTER.name: self._describe_cluster,
            fetch.FETCH.name: self._fetch,
            fetch_snapshot.FETCH_SNAPSHOT.name: self._fetch_snapshot,
            BROKER_REGISTRATION.name: self._register,
            BROKER_HEARTBEAT.name: self._heartbeat,
            ENVELOPE.name: self._envelope,
            ALLOCATE_PRODUCER_IDS.name: lambda _: ALLOCATE_PRODUCER_IDS.response(
                producer_id_start=7_000, producer_id_len=1_000
            ),
            CREATE_TOPICS.name: self._create_topics,
            ASSIGN_REPLICAS_TO_DIRS.name: self._assign,
            INCREMENTAL_ALTER_CONFIGS.name: self._alter_configs,
            DESCRIBE_QUORUM.name: lambda _: DESCRIBE_QUORUM.response(
                error_message="as the controller answers", topics=[self._described_quorum()]
            ),
        }
        return handlers[api.name](request)

    def _described_quorum(self) -> Struct:
        voters = [ReplicaState(replica_id=each, log_end_offset=self._end) for each in self.static_voters]
        part = describe_quorum.ResponsePartitionData(partition_index=0, current_voters=voters)
        return describe_quorum.ResponseTopicData(topic_name="__cluster_metadata", partitions=[part])

    def _api_versions(self, _: Struct) -> Struct:
        keys = [
            ApiVersion(api_key=each.key, min_version=each.current.min, max_version=each.current.max) for each in _APIS
        ]
        for each in keys:
            if each.api_key == CREATE_TOPICS.key:
                each.min_version, each.max_version = self.create_topics_versions
        return API_VERSIONS.response(api_keys=keys)

    def _fetch(self, request: Struct) -> Struct:
        asked = request.topics[0].partitions[0]
        if request.cluster_id != self.cluster_id:
            return fetch.FETCH.response(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
        with self._lock:
            data = self._partition(asked)
            if data.error_code == ErrorCode.NONE and not data.records and data.snapshot_id.end_offset < 0:
                self._lock.wait(0.05)
                data = self._partition(asked)
        topic = fetch.FetchableTopicResponse(topic_id=METADATA_TOPIC_ID, partitions=[data])
        endpoint = fetch.NodeEndpoint(node_id=NODE_ID, host=HOST, port=self.port)
        return fetch.FETCH.response(responses=[topic], node_endpoints=[endpoint])

    def _partition(self, asked: Struct) -> Struct:
        data = fetch.PartitionData(partition_index=0, high_watermark=-1, records=b"")
        leader = NODE_ID if self.is_active else -1
        data.current_leader = fetch.LeaderIdAndEpoch(leader_id=leader, leader_epoch=self.epoch)
        if not self.is_active or asked.current_leader_epoch != self.epoch:
            data.error_code = ErrorCode.FENCED_LEADER_EPOCH if self.is_active else ErrorCode.NOT_LEADER_OR_FOLLOWER
            return data
        data.high_watermark = self._end if self.high_watermark is None else self.high_watermark
        start = self._snapshot[0] if self._snapshot is not None else 0
        if self._snapshot is not None and asked.fetch_offset < start:
            data.snapshot_id = fetch.SnapshotId(end_offset=start, epoch=self._snapshot[1])
        elif asked.fetch_offset > start and (end := self._end_of(asked.last_fetched_epoch)) < asked.fetch_offset:
            data.diverging_epoch = fetch.EpochEndOffset(epoch=asked.last_fetched_epoch, end_offset=end)
        else:
            data.records = b"".join(batch for base, _, batch in self._batches if base >= asked.fetch_offset)
        return data

    def _end_of(self, epoch: int) -> int:
        return min((base for base, found, _ in self._batches if found > epoch), default=self._end)

    def _fetch_snapshot(self, request: Struct) -> Struct:
        if self._snapshot is None:
            part = fetch_snapshot.ResponsePartitionSnapshot(
                index=0, error_code=ErrorCode.SNAPSHOT_NOT_FOUND, unaligned_records=b""
            )
            topic = fetch_snapshot.ResponseTopicSnapshot(name="__cluster_metadata", partitions=[part])
            return fetch_snapshot.FETCH_SNAPSHOT.response(topics=[topic])
        end_offset, epoch, data = self._snapshot
        position = request.topics[0].partitions[0].position
        part = fetch_snapshot.ResponsePartitionSnapshot(
            index=0,
            snapshot_id=fetch_snapshot.SnapshotId(end_offset=end_offset, epoch=epoch),
            size=len(data),
            position=position,
            unaligned_records=data[position : position + 100],  # in several parts
        )
        topic = fetch_snapshot.ResponseTopicSnapshot(name="__cluster_metadata", partitions=[part])
        return fetch_snapshot.FETCH_SNAPSHOT.response(topics=[topic])

    def _describe_cluster(self, _: Struct) -> Struct:
        if self.image.metadata_version < CONTROLLER_REGISTRATION_LEVEL:
            return DESCRIBE_CLUSTER.response(error_code=ErrorCode.UNSUPPORTED_VERSION)
        return DESCRIBE_CLUSTER.response(endpoint_type=2, cluster_id=self.cluster_id, controller_id=NODE_ID)

    def _register(self, request: Struct) -> Struct:
        if not self.is_active:
            return BROKER_REGISTRATION.response(error_code=ErrorCode.NOT_CONTROLLER)
        if self.refusals:
            return BROKER_REGISTRATION.response(error_code=self.refusals.pop(0))
        node = NodeIdentity(request.broker_id, request.incarnation_id)
        endpoints = [Endpoint(each.name, each.host, each.port, each.security_protocol) for each in request.listeners]
        before = self.image.brokers.get(request.broker_id)
        is_again = before is not None and before.incarnation_id == request.incarnation_id
        epoch = before.broker_epoch if before is not None and is_again else self._end
        records = register_broker(self.image, node, epoch, endpoints, request.rack, request.log_dirs)
        records[0].value.fenced = not is_again
        self.write(records)
        return BROKER_REGISTRATION.response(broker_epoch=epoch)

    def _heartbeat(self, request: Struct) -> Struct:
        if not self.is_active:
            return BROKER_HEARTBEAT.response(error_code=ErrorCode.NOT_CONTROLLER)
        broker = self.image.brokers[request.broker_id]
        caught_up = request.current_metadata_offset >= broker.broker_epoch
        if request.want_shut_down:
            self.write(leave(self.image, request.broker_id))
            return BROKER_HEARTBEAT.response(is_caught_up=True, is_fenced=True, should_shut_down=True)
        if not request.want_fence and broker.fenced and caught_up:
            self.write(unfence_broker(self.image, request.broker_id))
        return BROKER_HEARTBEAT.response(
            is_caught_up=caught_up, is_fenced=self.image.brokers[request.broker_id].fenced, should_shut_down=False
        )

    def _envelope(self, request: Struct) -> Struct:
        if not self.is_active:
            return ENVELOPE.response(error_code=ErrorCode.NOT_CONTROLLER)
        version = int.from_bytes(request.request_principal[:2], "big")
        principal, _ = DefaultPrincipalData.decode(version, request.request_principal, 2)
        self.principals.append(f"{principal.type}:{principal.name}")
        reply = b"".join(bytes(each) for each in self.serve(bytes(request.request_data)))
        return ENVELOPE.response(response_data=reply[4:])

    def _create_topics(self, request: Struct) -> Struct:
        found = self.create(*(NewTopic(each.name, each.num_partitions, 1) for each in request.topics))
        results = [CreatableTopicResult(name=each.name, error_code=each.error_code) for each in found]
        return CREATE_TOPICS.response(topics=results, throttle_time_ms=self.throttle_ms)

    def _assign(self, request: Struct) -> Struct:
        directories = []
        for directory in request.directories:
            self.on_assignment(directory.id)
            topics = []
            for topic in directory.topics:
                indexes = [each.partition_index for each in topic.partitions]
                placed = [(topic.topic_id, index, directory.id) for index in indexes]
                self.write(assign_directories(self.image, request.broker_id, placed))
                found = [ResponsePartitionData(partition_index=index) for index in indexes]
                topics.append(ResponseTopicData(topic_id=topic.topic_id, partitions=found))
            directories.append(ResponseDirectoryData(id=directory.id, topics=topics))
        return ASSIGN_REPLICAS_TO_DIRS.response(directories=directories)

    def _alter_configs(self, request: Struct) -> Struct:
        results = [
            AlterConfigsResourceResponse(
                error_message=None, resource_type=each.resource_type, resource_name=each.resource_name
            )
            for each in request.resources
        ]
        return INCREMENTAL_ALTER_CONFIGS.response(responses=results)

    # -- sockets -----------------------------------------------------------------------------------------------------

    def serve(self, frame: bytes) -> list[Any]:
        """Return the frame of the answer, in pieces."""
        header = decode_request_header(frame)
        api = API_BY_KEY[header.api_key]
        request, _ = api.request.decode(header.api_version, frame, header.position)
        answer = self.distort(api.name, self.answer(api, request))
        return encode_response(api, header.api_version, header.correlation_id, answer)

    def listen(self, listener: socket.socket) -> None:
        """Serve connections until the listener is closed."""
        while True:
            try:
                connection = listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self._serve_connection, args=(connection,), daemon=True).start()

    def _serve_connection(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            while size := connection.recv(4, socket.MSG_WAITALL):
                length = int.from_bytes(size, "big")
                if length > _MOST_BYTES:  # a TLS handshake
                    return
                frame = connection.recv(length, socket.MSG_WAITALL)
                for chunk in self.serve(frame):
                    connection.sendall(chunk)


@contextmanager
def fake_controller(cluster_id: str, features: Mapping[str, int] = BOOTSTRAP_FEATURES) -> Iterator[FakeController]:
    """Yield a controller that listens on a free port."""
    with socket.create_server((HOST, 0)) as listener:
        controller = FakeController(cluster_id, features)
        controller.port = listener.getsockname()[1]
        thread = threading.Thread(target=controller.listen, args=(listener,))
        thread.start()
        try:
            yield controller
        finally:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            thread.join()
