"""Hostile requests sent to a broker on several connections in turn, and their outcomes."""

from __future__ import annotations

import struct
from collections import Counter
from enum import Enum

from protocol.headers import decode_response_header
from protocol.messages.api_versions import API_VERSIONS
from protocol.messages.create_acls import CREATE_ACLS
from protocol.messages.delete_acls import DELETE_ACLS
from protocol.messages.describe_acls import DESCRIBE_ACLS
from protocol.messages.join_group import JOIN_GROUP
from protocol.messages.produce import PRODUCE
from protocol.messages.sync_group import SYNC_GROUP
from protocol.registry import API_BY_KEY
from protocol.schema import Api
from tests.support.brokers import HOST
from tests.support.data_client import DataClient
from tests.support.hostile import TOPICS, Hostile
from tests.support.wire import Closed, WireClient, served_versions

#: for a broker that serves every API, and creates topics on request
PROPERTIES = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
}
#: some requests of these end their connection, as at Apache Kafka: failing acks=0, unknown kinds
MAY_CLOSE = (PRODUCE, CREATE_ACLS, DELETE_ACLS, DESCRIBE_ACLS)
_ID, _NEXT_ID = 7, 8
_PATIENCE_S, _SHORT_PATIENCE_S = 60.0, 0.5
#: answered when other members join, which do not exist
_MAY_WAIT = (JOIN_GROUP, SYNC_GROUP)


class Outcome(Enum):
    """The outcome of a request."""

    ANSWERED = "answered"
    SILENT = "served without an answer, as asked for"
    CLOSED = "the connection is closed"
    WAITS = "waits for other clients"


class HostileClient:
    """A number of connections to the broker at `port`; closed ones are opened again."""

    def __init__(self, port: int, connections: int) -> None:
        self._port = port
        self._clients = [self._connect() for _ in range(connections)]
        self._sent = 0
        self.outcomes: Counter[Outcome] = Counter()

    def send(self, request: Hostile) -> Outcome:
        """Send a request; check that it is answered in its schema or closed, and in order."""
        place = self._sent % len(self._clients)
        self._sent += 1
        client = self._clients[place]
        client.socket.settimeout(_SHORT_PATIENCE_S if request.api in _MAY_WAIT else _PATIENCE_S)
        outcome = _outcome(client, request)
        if outcome in (Outcome.CLOSED, Outcome.WAITS):
            client.close()
            self._clients[place] = self._connect()
        self.outcomes[outcome] += 1
        return outcome

    def close(self) -> None:
        for client in self._clients:
            client.close()

    def _connect(self) -> WireClient:
        return WireClient(HOST, self._port)


def _outcome(client: WireClient, request: Hostile) -> Outcome:
    following = struct.pack(">ihhih", 10, API_VERSIONS.key, 0, _NEXT_ID, -1)
    try:
        client.socket.sendall(request.frame(_ID) + following)
        answer = client.receive_frame()
        if struct.unpack_from(">i", answer)[0] == _NEXT_ID:
            assert request.api is PRODUCE, f"{request} has no answer"
            return Outcome.SILENT
        _check_answer(request, answer)
        assert struct.unpack_from(">i", client.receive_frame())[0] == _NEXT_ID, f"{request} has two answers"
    except (Closed, ConnectionError):
        return Outcome.CLOSED
    except TimeoutError:
        assert request.api in _MAY_WAIT, f"{request} is not answered"
        return Outcome.WAITS
    return Outcome.ANSWERED


def _check_answer(request: Hostile, answer: bytes) -> None:
    """Check that an answer belongs to its request and decodes completely."""
    api, version = request.api, request.version
    correlation_id, position = decode_response_header(api, version, answer)
    assert correlation_id == _ID, f"{request} is answered as {correlation_id}"
    value, end = api.response.decode(version, answer, position)
    assert end == len(answer), f"{len(answer) - end} bytes are left over in the answer to {request}"
    assert api.response.encode(version, value) == answer[position:], f"the answer to {request} is encoded otherwise"


def prepared(port: int) -> tuple[list[tuple[Api, int]], list[bytes]]:
    """Return all (API, version) that a broker serves, and the ids of the requests' topics, which are created."""
    with DataClient(HOST, port) as client:
        ids = [client.create_topic(topic, 2) for topic in TOPICS]
        served = served_versions(client)
    return [
        (API_BY_KEY[key], version)
        for key, versions in sorted(served.items())
        for version in versions
        if version in API_BY_KEY[key].current
    ], ids
