"""Quotas in the order in which Apache Kafka 4.3 lists them: clients' tests compare whole lists.

Kafka promises no order, and that of 4.4 differs for clients of several requests.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from protocol.messages.alter_client_quotas import ALTER_CLIENT_QUOTAS, EntityData, OpData, RequestEntryData
from protocol.messages.describe_client_quotas import DESCRIBE_CLIENT_QUOTAS, ComponentData
from tests.support.kafka_releases import Kafka43
from tests.support.pairs import Pair

KEYS = ("producer_byte_rate", "request_percentage", "consumer_byte_rate", "controller_mutation_rate")
ALL = [[], ["user"], ["client-id"], ["user", "client-id"], ["ip"]]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    made = Pair(tmp_path_factory.mktemp("quotas"), kafka=Kafka43)
    yield made
    made.close()


def entry(names: dict[str, str | None], keys: tuple[str, ...], *, remove: bool = False) -> RequestEntryData:
    entity = [EntityData(entity_type=kind, entity_name=name) for kind, name in names.items()]
    return RequestEntryData(entity=entity, ops=[OpData(key=key, value=7.0, remove=remove) for key in keys])


def same_lists(pair: Pair) -> None:
    """Check that both brokers give the same order, once both have the last change."""
    for kinds in ALL:
        components = [ComponentData(entity_type=kind, match_type=2, match=None) for kind in kinds]
        pair.until_same(
            lambda components=components: pair.ask(  # type: ignore[misc]
                DESCRIBE_CLIENT_QUOTAS, 1, components=components, strict=False
            )
        )


def test_quotas_are_listed_in_kafkas_order(pair: Pair) -> None:
    """Entities of one request and of several, keys of one entity, defaults, and after deletions."""
    requests = [
        [entry({"user": "alice"}, KEYS[:2])],
        [entry({"user": "alice", "client-id": "c"}, KEYS), entry({"client-id": "c", "user": None}, KEYS[:1])],
        [entry({"user": f"user-{number}"}, KEYS[number % 4 :]) for number in range(30)],
        [entry({"client-id": f"client-{number}"}, KEYS[: 1 + number % 4]) for number in (3, 1, 2)],
        [entry({"ip": "127.0.0.1"}, ("connection_creation_rate",)), entry({"ip": None}, ("connection_creation_rate",))],
        [entry({"user": f"user-{number}"}, KEYS, remove=True) for number in range(0, 30, 4)],
        [entry({"user": "alice"}, KEYS[2:]), entry({"user": None}, KEYS), entry({"user": "alice"}, KEYS[2:])],
    ]
    for entries in requests:
        pair.same(ALTER_CLIENT_QUOTAS, 1, entries=entries)
        same_lists(pair)
