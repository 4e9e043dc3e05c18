"""Brokers of Apache Kafka are replaced by pybroker one by one on their directories, and back, under load."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from metadata.features import METADATA_VERSION
from metadata.releases import level_of
from protocol.error_codes import ErrorCode
from protocol.messages.update_features import UPDATE_FEATURES, FeatureUpdateKey
from tests.conformance.replaced_brokers import IDS, ReplacedBrokers
from tests.conformance.replacement_load import ReplacementLoad
from tests.integration.membership.kafka_nodes import QUIET
from tests.integration.membership.replica_verification import differences_by_kafka, differences_by_us
from tests.support.brokers import HOST
from tests.support.history import History
from tests.support.java import KAFKA_LINE, JavaRunner
from tests.support.scale import scaled
from tests.support.wire import WireClient

#: acknowledged or read values of each client between two replacements
COUNT = min(scaled(20), 200)
#: the highest metadata.version of this release of Apache Kafka
NEWEST = level_of(".".join(map(str, KAFKA_LINE)))
_ACL = AclBinding(
    ResourceType.TOPIC,
    "kept",
    ResourcePatternType.LITERAL,
    "User:alice",
    "*",
    AclOperation.READ,
    AclPermissionType.ALLOW,
)
_ANY: Any = None
_ANYTHING = AclBindingFilter(
    ResourceType.ANY, _ANY, ResourcePatternType.ANY, _ANY, _ANY, AclOperation.ANY, AclPermissionType.ANY
)


class Kept:
    """Offsets of a group without members, an ACL and an open transaction: each of them outlives each replacement."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._admin = AdminClient({**QUIET, "bootstrap.servers": bootstrap})
        self._admin.create_topics([NewTopic("kept", 1, 3)])["kept"].result(60)
        self._admin.create_acls([_ACL])[_ACL].result(60)
        open_for_ms = 900_000  # on a slow machine a replacement takes minutes
        names = {"transactional.id": "kept", "transaction.timeout.ms": open_for_ms}
        self._producer = Producer({**QUIET, "bootstrap.servers": bootstrap, **names})
        self._producer.init_transactions(60)
        self._count = 0
        self._group(lambda group: group.commit(offsets=[TopicPartition("kept", 0, 7)], asynchronous=False))
        self.begin()

    def _group(self, use: Callable[[Consumer], Any]) -> Any:
        group = Consumer({**QUIET, "bootstrap.servers": self._bootstrap, "group.id": "sleeping"})
        try:
            return use(group)
        finally:
            group.close()

    def begin(self) -> None:
        """Begin a transaction with one record."""
        self._producer.begin_transaction()
        self._producer.produce("kept", str(self._count))
        assert self._producer.flush(60) == 0
        self._count += 1

    def check(self) -> None:
        """All is as it was; the open transaction is committed, and another one begins."""
        (found,) = self._group(lambda group: group.committed([TopicPartition("kept", 0)], 60))
        assert found.offset == 7
        assert self._admin.describe_acls(_ANYTHING).result(60) == [_ACL]
        self._producer.commit_transaction(60)
        assert self._values() == [str(number) for number in range(self._count)]
        self.begin()

    def _values(self) -> list[str]:
        config = {"group.id": "any", "isolation.level": "read_committed", "auto.offset.reset": "earliest"}
        reader = Consumer({**QUIET, "bootstrap.servers": self._bootstrap, **config})
        reader.assign([TopicPartition("kept", 0, 0)])
        found = reader.consume(self._count, 60)
        reader.close()
        return [bytes(each.value() or b"").decode() for each in found]


def raise_metadata_version(brokers: ReplacedBrokers, level: int) -> None:
    """Raise metadata.version through broker 1."""
    update = FeatureUpdateKey(feature=METADATA_VERSION, max_version_level=level, upgrade_type=1)
    with WireClient(HOST, brokers.brokers[1].port) as client:
        answer = client.call(UPDATE_FEATURES, 1, feature_updates=[update])
    assert answer.error_code == ErrorCode.NONE, answer


def check_replicas(brokers: ReplacedBrokers) -> None:
    """All replicas are equal byte by byte."""
    for partition in sorted(brokers.partitions()):
        first, *others = (brokers.log(node_id, partition) for node_id in IDS)
        assert others == [first, first], partition


def roll(
    brokers: ReplacedBrokers,
    home: Path,
    steps: list[tuple[int, str, bool]],
    levels: dict[int, int],
    java: JavaRunner | None = None,
) -> None:
    """Replace brokers under load. `steps`: (id, kind, killed); `levels`: metadata.version to set after a step."""
    load = ReplacementLoad(brokers.bootstrap, History(home / "history.jsonl"), java)
    kept = Kept(brokers.bootstrap)
    load.get_on(COUNT)
    for number, (node_id, kind, killed) in enumerate(steps):
        brokers.replace(node_id, kind, killed=killed)
        load.get_on(COUNT)
        kept.check()
        if number in levels:
            raise_metadata_version(brokers, levels[number])
            load.get_on(COUNT)
    load.finish()
    kept.check()
    brokers.wait_for_replicas()
    check_replicas(brokers)
    assert differences_by_kafka(brokers.bootstrap) == differences_by_us(brokers.bootstrap) == []


def test_a_broker_is_replaced_and_comes_back(tmp_path: Path) -> None:
    """Two brokers of pybroker, and one of Apache Kafka that is replaced."""
    with ReplacedBrokers(tmp_path, {1: "kafka", 2: "ours", 3: "ours"}) as brokers:
        roll(brokers, tmp_path, [(1, "ours", False), (1, "kafka", False)], {0: NEWEST})


@pytest.mark.full_size
@pytest.mark.parametrize("killed", [False, True])
def test_all_brokers_are_replaced_and_come_back(java: JavaRunner, tmp_path: Path, killed: bool) -> None:
    """One by one; metadata.version rises while all three are of pybroker."""
    steps = [(node_id, kind, killed) for kind in ("ours", "kafka") for node_id in IDS]
    with ReplacedBrokers(tmp_path, dict.fromkeys(IDS, "kafka")) as brokers:
        roll(brokers, tmp_path, steps, {2: NEWEST}, java)
