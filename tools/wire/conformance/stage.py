"""A temporary topic, group and transactional id, and connections to their leader and coordinators."""

from __future__ import annotations

import time
import uuid
from typing import Any

from protocol.client_session import WrongCorrelationId
from protocol.error_codes import ErrorCode, ProtocolError
from protocol.messages.api_versions import API_VERSIONS
from protocol.messages.create_topics import CREATE_TOPICS
from protocol.messages.delete_groups import DELETE_GROUPS
from protocol.messages.delete_topics import DELETE_TOPICS
from protocol.messages.find_coordinator import FIND_COORDINATOR
from protocol.messages.init_producer_id import INIT_PRODUCER_ID
from protocol.messages.metadata import METADATA
from protocol.messages.produce import PRODUCE
from protocol.records.builder import BatchBuilder
from protocol.schema import Api, Struct
from tools.errors import OfflineError
from tools.wire.conformance.probe import Destination, Probe, given
from tools.wire.sessions.addresses import Address
from tools.wire.sessions.link import Link, LinkBroken
from tools.wire.sessions.plain import plain
from tools.wire.sessions.player import PASSING, error_codes

_AGAIN_AFTER_S = 0.02
_SETTLING = PASSING | {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
}
_KINDS = {Destination.GROUP: 0, Destination.TRANSACTION: 1}


class WrongAnswer(OfflineError):
    """The broker sent another answer than expected."""


class Stage:
    """The objects that probes use. Raises LinkBroken or WrongAnswer if they cannot be created."""

    def __init__(self, servers: list[Address], timeout_s: float) -> None:
        self._servers = servers
        self._timeout_s = timeout_s
        self._links: dict[Address, Link] = {}
        self.name = f"pybroker-conformance-{uuid.uuid4().hex[:12]}"
        self.topic_id = bytes(16)
        self.cluster_id = ""
        self.next_offset = 0
        self._producer = (-1, -1)
        self._brokers: dict[int, Address] = {}
        self._addresses: dict[Destination, Address] = {Destination.ANY: self._first()}
        answer = self.ask(API_VERSIONS, 0, {})
        self.versions = {each.api_key: range(each.min_version, each.max_version + 1) for each in answer.api_keys}

    def _first(self) -> Address:
        problem = LinkBroken("no broker was named")
        for address in self._servers:
            try:
                self._link(address)
            except LinkBroken as error:
                problem = error
            else:
                return address
        raise problem

    def open(self) -> None:
        """Create the topic, and find its leader and the coordinators. Raises LinkBroken, WrongAnswer."""
        try:
            self._open()
        except (LookupError, ValueError) as error:
            raise WrongAnswer(f"an answer lacks what was asked for: {error!r}") from None

    def _open(self) -> None:
        topic = {"name": self.name, "num_partitions": 1, "replication_factor": 1}
        self.with_retries(CREATE_TOPICS, {"topics": [topic], "timeout_ms": 30_000}, ErrorCode.TOPIC_ALREADY_EXISTS)
        metadata = self.with_retries(METADATA, {"topics": [{"name": self.name}], "allow_auto_topic_creation": False})
        self._brokers = {each.node_id: Address(each.host, each.port) for each in metadata.brokers}
        self.cluster_id = metadata.cluster_id or ""
        self.topic_id = metadata.topics[0].topic_id
        self._addresses[Destination.LEADER] = self._brokers[metadata.topics[0].partitions[0].leader_id]
        for destination, kind in _KINDS.items():
            fields = {"key": self.name, "key_type": kind, "coordinator_keys": [self.name]}
            found = self.with_retries(FIND_COORDINATOR, fields)
            node = found.coordinators[0] if found.coordinators else found
            self._addresses[destination] = Address(node.host, node.port)

    def close(self) -> None:
        """Delete the objects and close the connections."""
        try:
            self.with_retries(
                DELETE_TOPICS, {"topics": [{"name": self.name}], "topic_names": [self.name], "timeout_ms": 30_000}
            )
            self.with_retries(
                DELETE_GROUPS,
                {"groups_names": [self.name]},
                ErrorCode.GROUP_ID_NOT_FOUND,
                destination=Destination.GROUP,
            )
        except OfflineError:
            pass  # errors were reported before
        finally:
            for link in self._links.values():
                link.close()

    def newest(self, api: Api) -> int:
        """Return the newest version that both sides support."""
        served = self.versions.get(api.key, range(0))
        return min(max(served, default=0), api.current.max)

    def with_retries(
        self, api: Api, fields: dict[str, Any], *also: ErrorCode, destination: Destination = Destination.ANY
    ) -> Struct:
        """Send a request until the broker is ready, and return the answer. Raises LinkBroken, WrongAnswer."""
        until_s = time.monotonic() + self._timeout_s
        version = self.newest(api)
        while True:
            answer = self.ask(api, version, fields, destination)
            codes = error_codes(plain(answer, version)) - set(also)
            if not codes:
                return answer
            if codes - _SETTLING or time.monotonic() > until_s:
                raise WrongAnswer(f"{api.name} v{version}: {names_of(codes)}")
            time.sleep(_AGAIN_AFTER_S)

    def probe(self, probe: Probe, api: Api, version: int) -> Struct:
        """Send a probe, again while the broker is not ready; return the answer. Raises LinkBroken, WrongAnswer."""
        until_s = time.monotonic() + self._timeout_s
        while True:
            answer = self.ask(api, version, probe.fields(self, version), probe.destination)
            codes = error_codes(plain(answer, version))
            if not codes & (PASSING - probe.expected) or time.monotonic() > until_s:
                return answer
            time.sleep(_AGAIN_AFTER_S)

    def ask(self, api: Api, version: int, fields: Any, destination: Destination = Destination.ANY) -> Struct:
        """Send one request and decode all bytes of its answer. Raises LinkBroken, WrongAnswer."""
        if version not in api.versions:
            raise WrongAnswer(f"the broker has no version of {api.name} that is known here")
        address = self._addresses.get(destination, self._addresses[Destination.ANY])
        link = self._link(address)
        try:
            link.ask(api, version, given(api, version, fields))
            response = link.answer()
        except LinkBroken:
            self._links.pop(address).close()
            raise
        except WrongCorrelationId as error:
            self._links.pop(address).close()
            raise WrongAnswer(str(error)) from None
        except ProtocolError as error:
            raise WrongAnswer(f"the answer cannot be decoded: {error}") from None
        if response.extra_bytes:
            raise WrongAnswer(f"{response.extra_bytes} bytes follow the end of the answer")
        return response.fields

    def _link(self, address: Address) -> Link:
        if address not in self._links:
            self._links[address] = Link(address, self._timeout_s, "pybroker-conformance")
        return self._links[address]

    # -- for probes -----------------------------------------------------------------------------------------------

    def topic(self, version: int, by_id_from: int, by_name: str = "name") -> dict[str, Any]:
        """Return the topic's field of a request: its id from version `by_id_from` on, else its name."""
        return {"topic_id": self.topic_id} if version >= by_id_from else {by_name: self.name}

    def batch(self) -> bytes:
        """Return a batch of one record, whose value is its future offset."""
        builder = BatchBuilder()
        builder.append(int(time.time() * 1000), b"key", str(self.next_offset).encode())
        return builder.build()

    def write(self) -> None:
        """Append one record to the topic."""
        data = {"index": 0, "records": self.batch()}
        fields = {"acks": -1, "timeout_ms": 30_000}
        version = self.newest(PRODUCE)
        topic = {**self.topic(version, 13), "partition_data": [data]}
        self.with_retries(PRODUCE, {**fields, "topic_data": [topic]}, destination=Destination.LEADER)
        self.next_offset += 1

    def producer(self) -> tuple[int, int]:
        """Return the id and epoch of a transactional producer without an open transaction."""
        fields = {
            "transactional_id": self.name,
            "transaction_timeout_ms": 60_000,
            "producer_id": -1,
            "producer_epoch": -1,
        }
        answer = self.with_retries(INIT_PRODUCER_ID, fields, destination=Destination.TRANSACTION)
        self._producer = (answer.producer_id, answer.producer_epoch)
        return self._producer


def names_of(codes: set[int]) -> str:
    """Return the names of error codes."""
    known = {int(code) for code in ErrorCode}
    return ", ".join(ErrorCode(code).name if code in known else str(code) for code in sorted(codes))
