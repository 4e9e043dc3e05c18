"""Quotas at work, by the same frames at our broker and at Apache Kafka: which one applies, and the throttle times.

A throttled connection is muted.

The tests compute the bytes, so that the first throttle time is known: the bytes divided by the allowed rate, less the
ten windows of a second that a client may use at once. Throttle times may differ by a twentieth and 200 ms, because
windows advance while requests are on the way; those of request_percentage, which is time, are a window at most, and
always that here.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from itertools import count
from typing import Any

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.alter_client_quotas import ALTER_CLIENT_QUOTAS, EntityData, OpData, RequestEntryData
from protocol.messages.api_versions import API_VERSIONS
from protocol.messages.create_partitions import CREATE_PARTITIONS, CreatePartitionsTopic
from protocol.messages.create_topics import CREATE_TOPICS, CreatableTopic
from protocol.messages.delete_topics import DELETE_TOPICS
from protocol.messages.fetch import FETCH, FetchPartition, FetchTopic
from protocol.messages.find_coordinator import FIND_COORDINATOR
from protocol.messages.metadata import METADATA
from protocol.messages.produce import PRODUCE, PartitionProduceData, TopicProduceData
from protocol.schema import Api, Struct
from tests.support.brokers import HOST, RunningBroker
from tests.support.data_client import batch
from tests.support.eventually import eventually
from tests.support.pairs import Pair
from tests.support.settled import wait_for_changes
from tests.support.wire import Closed, WireClient

TOPIC = "limited"
#: The quotas' entities, the most specific first, with the throttle time that each gives a first request.
LEVELS: tuple[tuple[Mapping[str, str | None], int], ...] = (
    ({"user": "ANONYMOUS", "client-id": "<own>"}, 5),
    ({"user": "ANONYMOUS", "client-id": None}, 10),
    ({"user": "ANONYMOUS"}, 15),
    ({"user": None, "client-id": "<own>"}, 20),
    ({"user": None, "client-id": None}, 25),
    ({"user": None}, 30),
    ({"client-id": "<own>"}, 35),
    ({"client-id": None}, 40),
)
_AT_ONCE_S = 10
_VERSIONS = {"client_software_name": "test", "client_software_version": "0"}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    made = Pair(tmp_path_factory.mktemp("throttling"))
    made.create_topics({TOPIC: 1, "read": 1, "grows": 1, "grows-too": 1})
    yield made
    made.close()


def limit(pair: Pair, *limits: tuple[Mapping[str, str | None], str, float | None]) -> None:
    """Set quotas, or delete those of None, at both; they are in force when this returns."""
    entries = [
        RequestEntryData(
            entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
            ops=[OpData(key=key, value=value or 0.0, remove=value is None)],
        )
        for entity, key, value in limits
    ]
    answer = pair.same(ALTER_CLIENT_QUOTAS, 1, entries=entries)
    assert {each.error_code for each in answer.entries} == {ErrorCode.NONE}
    for broker in pair.brokers:
        wait_for_changes(broker)


def asked(broker: RunningBroker, client_id: str, api: Api, version: int, **fields: Any) -> Struct:
    """Return an answer over a connection of its own: a muted client is served on its next connection."""
    with WireClient(HOST, broker.port, client_id=client_id) as client:
        return client.call(api, version, **fields)


def produced(size: int, acks: int = 1, topic: str = TOPIC) -> dict[str, Any]:
    data = PartitionProduceData(index=0, records=batch(bytes(size)))
    return {"acks": acks, "timeout_ms": 1000, "topic_data": [TopicProduceData(name=topic, partition_data=[data])]}


def rate_for(wait_s: float, size: int) -> int:
    """Return the rate, in bytes a second, at which a first request of this size waits so long."""
    return round(size / (_AT_ONCE_S + wait_s))


def close(ours_ms: float, kafkas_ms: float) -> bool:
    return abs(ours_ms - kafkas_ms) <= 200 + 0.05 * kafkas_ms


@pytest.mark.parametrize("level", range(len(LEVELS)))
def test_the_most_specific_quota_counts_alone(pair: Pair, level: int) -> None:
    """With less specific ones beside it, its own throttle time applies. The bytes of all clients of a user add up."""
    size = 800_000 if level == 5 else 20_000
    own = {"<own>": f"client-{level}"}
    entities = [{kind: own.get(name or "", name) for kind, name in entity.items()} for entity, _ in LEVELS]
    waits_s = [wait_s for _, wait_s in LEVELS]
    bounds = [rate_for(wait_s, size) if n >= level else None for n, wait_s in enumerate(waits_s)]
    limit(pair, *((entity, "producer_byte_rate", b) for entity, b in zip(entities, bounds, strict=True)))
    ours, kafka = pair.each(lambda broker: asked(broker, own["<own>"], PRODUCE, 9, **produced(size)).throttle_time_ms)
    limit(pair, *((entity, "producer_byte_rate", None) for entity in entities))
    assert close(ours, kafka), (ours, kafka)
    assert close(ours, 1000 * waits_s[level]), ours


@pytest.mark.parametrize("acks", [1, 0])
def test_a_throttled_connection_is_muted(pair: Pair, acks: int) -> None:
    """The answer comes at once, with the throttle time; the connection's next request waits, another connection's does
    not.
    """
    name = f"muted-{acks}"
    limit(pair, ({"client-id": name}, "producer_byte_rate", rate_for(2, 20_000)))

    def waited_ms(broker: RunningBroker) -> tuple[float, float]:
        with WireClient(HOST, broker.port, client_id=name) as client:
            began = time.monotonic()
            client.send(PRODUCE, 9, **produced(20_000, acks), answered=acks != 0)
            client.send(API_VERSIONS, 3, **_VERSIONS)
            told_ms = client.receive().throttle_time_ms if acks else 2000
            assert asked(broker, name, API_VERSIONS, 3, **_VERSIONS).throttle_time_ms == 0
            client.socket.setblocking(False)
            with pytest.raises(BlockingIOError):
                client.socket.recv(1)
            client.socket.settimeout(60)
            client.receive()
            return told_ms, 1000 * (time.monotonic() - began)

    for told_ms, passed_ms in pair.each(waited_ms):
        assert close(told_ms, 2000), told_ms
        assert 0.9 * told_ms < passed_ms < told_ms + 20_000
    limit(pair, ({"client-id": name}, "producer_byte_rate", None))


def test_bytes_fetched(pair: Pair) -> None:
    """A Fetch returns what the windows hold; the next one would exceed that, returns nothing, and is throttled."""
    for broker in pair.brokers:
        for _ in range(6):
            asked(broker, "feeder", PRODUCE, 9, **produced(10_000, topic="read"))
    limit(pair, ({"client-id": "reader"}, "consumer_byte_rate", 2_000.0))
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topics = [FetchTopic(topic="read", partitions=[wanted])]
    fetch = {"max_wait_ms": 500, "min_bytes": 1, "max_bytes": 15_000, "topics": topics}
    waits_ms = []
    for number in range(2):
        answers = pair.each(lambda broker: asked(broker, "reader", FETCH, 12, **fetch))
        sizes = [sum(len(part.records or b"") for t in each.responses for part in t.partitions) for each in answers]
        assert abs(sizes[0] - sizes[1]) < 200, sizes
        assert (max(sizes) > 0) is (number == 0), sizes
        waits_ms.append([answer.throttle_time_ms for answer in answers])
    limit(pair, ({"client-id": "reader"}, "consumer_byte_rate", None))
    assert waits_ms[0] == [0, 0]
    assert close(*waits_ms[1]), waits_ms
    assert waits_ms[1][0] > 4_000


@pytest.mark.parametrize(
    ("api", "version", "fields"),
    [
        (METADATA, 12, {"topics": None}),
        (FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": ["group"]}),
        (API_VERSIONS, 3, _VERSIONS),
    ],
    ids=["metadata", "find-coordinator", "api-versions"],
)
def test_request_percentage(pair: Pair, api: Api, version: int, fields: dict[str, Any]) -> None:
    """For a client with next to no share of the time: each answer throttles it for a window."""
    name = f"slow-{api.name}"
    limit(pair, ({"client-id": name}, "request_percentage", 0.00001))
    waits_ms = pair.each(lambda broker: asked(broker, name, api, version, **fields).throttle_time_ms)
    limit(pair, ({"client-id": name}, "request_percentage", None))
    assert waits_ms == (1000, 1000)


def _made(name: str) -> dict[str, Any]:
    return {"topics": [CreatableTopic(name=name, num_partitions=20, replication_factor=1)], "timeout_ms": 10_000}


def _grown(name: str) -> dict[str, Any]:
    return {"topics": [CreatePartitionsTopic(name=name, count=21, assignments=None)], "timeout_ms": 10_000}


def _outcome(answer: Struct) -> tuple[int, int]:
    [result] = answer.topics if hasattr(answer, "topics") else getattr(answer, "results", None) or answer.responses
    return result.error_code, answer.throttle_time_ms


def test_controller_mutations(pair: Pair) -> None:
    """A debt rejects later mutations of clients that know the error; older clients are throttled longer."""
    limit(pair, ({"client-id": None}, "controller_mutation_rate", 1.0))
    for broker in pair.brokers:
        _wait_until_mutations_are_limited(broker)
    steps: dict[str, list[tuple[Api, int, dict[str, Any]]]] = {
        "maker": [(CREATE_TOPICS, 7, _made(f"made-{n}")) for n in range(2)],
        "old maker": [(CREATE_TOPICS, 5, _made(f"made-by-old-{n}")) for n in range(2)],
        "grower": [(CREATE_PARTITIONS, 3, _grown(name)) for name in ("grows", "grows-too")],
        "remover": [
            (DELETE_TOPICS, 5, {"topic_names": [name], "timeout_ms": 10_000}) for name in ("made-0", "made-by-old-0")
        ],
    }
    for client, requests in steps.items():
        for number, (api, version, fields) in enumerate(requests):
            ours, kafka = pair.each(partial(_step, client, api, version, fields))
            assert ours[0] == kafka[0], (client, number, ours, kafka)
            assert close(ours[1], kafka[1]), (client, number, ours, kafka)
            is_refused = client != "old maker" and number == 1
            assert (ours[0] == ErrorCode.THROTTLING_QUOTA_EXCEEDED) is is_refused
            assert ours[1] > 0 or not is_refused
    limit(pair, ({"client-id": None}, "controller_mutation_rate", None))


def _step(client: str, api: Api, version: int, fields: dict[str, Any], broker: RunningBroker) -> tuple[int, int]:
    return _outcome(asked(broker, client, api, version, **fields))


def _wait_until_mutations_are_limited(broker: RunningBroker) -> None:
    """Wait until Apache Kafka's controller applies the quota: each probe is another client, with its own share."""
    numbers = count()

    def second_answer() -> int:
        probe = f"probe-{next(numbers)}"
        for again in range(2):
            answer = asked(broker, probe, CREATE_TOPICS, 7, **_made(f"{probe}-{again}"))
        return _outcome(answer)[0]

    eventually(second_answer, equal_to=ErrorCode.THROTTLING_QUOTA_EXCEEDED, interval_s=0.2)


def test_connections_of_an_address(pair: Pair) -> None:
    """As many as the windows hold are served; the next ones are accepted, and closed after a window."""
    address = "127.0.0.9"
    limit(pair, ({"ip": address}, "connection_creation_rate", 1.0))
    served = pair.each(lambda broker: _come(broker, address, 13))
    limit(pair, ({"ip": address}, "connection_creation_rate", None))
    assert [[each is None for each in outcomes] for outcomes in served] == 2 * [[True] * 10 + [False] * 3]
    for closed_after_s in served:
        assert all(0.5 < each < 20 for each in closed_after_s[10:]), closed_after_s


def _come(broker: RunningBroker, address: str, times: int) -> list[float | None]:
    """Return the seconds until each connection from an address was closed; None for those that were served."""
    with ExitStack() as links:
        began, clients = [], []
        for _ in range(times):
            began.append(time.monotonic())
            client = WireClient(HOST, broker.port, source=address)
            clients.append(links.enter_context(client))
            client.send(API_VERSIONS, 3, **_VERSIONS)
        outcomes: list[float | None] = []
        for start, client in zip(began, clients, strict=True):
            try:
                client.receive()
            except Closed:
                outcomes.append(time.monotonic() - start)
            else:
                outcomes.append(None)
        return outcomes
