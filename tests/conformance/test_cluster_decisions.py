"""The controller of a cluster decides as Apache Kafka's: random histories of brokers, partitions and requests.

Both sides take the same requests. They have to give the same answers and to write the same records, byte by byte; the
order of the records of one step is free, because Apache Kafka's is that of a hash table.

Ours differ on purpose in six cases, which no history contains:
- A reassignment replaces one that is in progress. Apache Kafka keeps its lists of added and removed replicas.
- A removed replica is no longer eligible to lead (KIP-966). Apache Kafka keeps it among the eligible ones.
- The last leader of a partition without one is not elected if it is no replica any more. In Apache Kafka it may be.
- A replica that leaves when the report of an offline directory ends a reassignment is not elected. In Apache Kafka it
  may be.
- A replica in an offline directory is not elected by the report of that directory. In Apache Kafka it may be, if the
  former directory works and the partition has no leader.
- A cancelled reassignment leaves the in-sync set empty if no replica is in sync, but one is eligible. Apache Kafka puts
  the first replica into the set: it may lack records, and no eligible replica may lead while it is away.
"""

from __future__ import annotations

import base64
import json
from random import Random
from typing import Any

import pytest

from metadata.elections import ElectionType
from metadata.features import ELIGIBLE_LEADER_REPLICAS, METADATA_VERSION
from metadata.framing import decode_record, encode_record, new_record
from metadata.image import ResourceType
from metadata.partition_change import without
from metadata.partition_registration import NO_LEADER, PartitionRegistration
from protocol.messages.alter_partition import ALTER_PARTITION
from protocol.messages.alter_partition import BrokerState as ReplicaEpoch
from protocol.messages.alter_partition import RequestTopicData as AlterTopic
from protocol.messages.alter_partition_reassignments import (
    ALTER_PARTITION_REASSIGNMENTS,
    ReassignablePartition,
    ReassignableTopic,
)
from protocol.messages.assign_replicas_to_dirs import (
    ASSIGN_REPLICAS_TO_DIRS,
    RequestDirectoryData,
    RequestPartitionData,
    RequestTopicData,
)
from protocol.messages.broker_heartbeat import BROKER_HEARTBEAT
from protocol.messages.broker_registration import BROKER_REGISTRATION
from protocol.messages.cluster_metadata import ConfigRecord, FeatureLevelRecord
from protocol.messages.elect_leaders import ELECT_LEADERS, TopicPartitions
from protocol.messages.unregister_broker import UNREGISTER_BROKER
from protocol.schema import Api, Struct
from tests.support.controllers import CLUSTER_ID
from tests.support.java import JavaRunner
from tests.support.scale import scaled
from tests.unit.controller.small_cluster import SESSION_MS, TOPIC, SmallCluster, directory

SEED = 631
BROKERS = range(1, 6)
PARTITIONS = range(4)
UNCLEAN = "unclean.leader.election.enable"
SESSIONS_END, BALANCE, ELECT_UNCLEAN = 0, -1, -2


class History:
    """Takes random steps with our controller, and notes them, with what each wrote and answered."""

    def __init__(self, random: Random, level: int, elr: bool) -> None:
        self._random = random
        self.cluster = SmallCluster(elr=elr, level=level)
        self.is_over = False
        self.steps: list[dict[str, Any]] = []
        self.expected: list[tuple[list[str], Any]] = []
        levels = {METADATA_VERSION: level} | ({ELIGIBLE_LEADER_REPLICAS: 1} if elr else {})
        self.append(
            *(new_record(level, FeatureLevelRecord, name=name, feature_level=each) for name, each in levels.items()),
            self._setting(ResourceType.BROKER, "", "min.insync.replicas", str(random.randint(1, 3))),
        )
        for broker_id in BROKERS:
            self.register(broker_id)
            self.heartbeat(broker_id, current_metadata_offset=self.cluster.log.end_offset - 1)
        offset = self.cluster.log.end_offset
        self.cluster.with_topic(*(tuple(random.sample(BROKERS, random.randint(1, 4))) for _ in PARTITIONS))
        self._note({"records": [text_of(each) for each in self.cluster.log.records[offset:]]}, offset, None)
        self.expected[-1] = [], None

    def _setting(self, kind: ResourceType, name: str, key: str, value: str) -> Any:
        fields = {"resource_type": kind, "resource_name": name, "name": key, "value": value}
        return new_record(self.cluster.image.metadata_version, ConfigRecord, **fields)

    def _note(self, step: dict[str, Any], offset: int, answer: Any) -> None:
        self.steps.append({"now_ms": self.cluster.now_ms} | step)
        self.expected.append((sorted(text_of(each) for each in self.cluster.log.records[offset:]), answer))

    def append(self, *records: Any) -> None:
        """Append records that both sides only replay, and note the elections that ours starts because of them."""
        offset = self.cluster.log.end_offset
        self.cluster.controller.append(records)
        self.steps.append({"now_ms": self.cluster.now_ms, "records": [text_of(each) for each in records]})
        self.expected.append(([], None))
        if any(each.value.name == UNCLEAN for each in records):
            self._note({"api": ELECT_UNCLEAN, "version": 0}, offset + len(records), [])

    def ask(self, api: Api, version: int, request: Struct, decide: Any, answer: Any) -> None:
        """Take a request; `answer` makes of our response what is compared."""
        offset = self.cluster.log.end_offset
        response = decide(request).result()
        body = base64.b64encode(api.request.encode(version, request)).decode()
        step = {"api": api.key, "version": version, "body": body, "broker": getattr(request, "broker_id", 0)}
        self._note(step, offset, answer(response))

    # ---- steps

    def step(self) -> None:
        """Take any step."""
        kinds = {
            self.register: 1,
            self.any_heartbeat: 8,
            self.alter: 8,
            self.elect: 2,
            self.reassign: 3,
            self.assign: 2,
            self.lapse: 2,
            self.balance: 1,
            self.unregister: 0.3,
            self.configure: 0.5,
        }
        before = [self.cluster.partition(each) for each in PARTITIONS]
        steps = len(self.steps)
        self._random.choices(list(kinds), list(kinds.values()))[0]()
        after = [self.cluster.partition(each) for each in PARTITIONS]
        differs = any(map(loses_an_eligible_replica, before, after)) or any(map(is_forced_in_sync, before, after))
        if differs or self._assignment_removes(before, after) or self._elects_nobody(before, after):
            del self.steps[steps:], self.expected[steps:]
            self.is_over = True

    def _assignment_removes(self, before: list[PartitionRegistration], after: list[PartitionRegistration]) -> bool:
        """Return whether the last step was an assignment of directories that has ended a reassignment."""
        is_assignment = any(each.get("api") == ASSIGN_REPLICAS_TO_DIRS.key for each in self.steps[-1:])
        return is_assignment and any(old.replicas != new.replicas for old, new in zip(before, after, strict=True))

    def _elects_nobody(self, before: list[PartitionRegistration], after: list[PartitionRegistration]) -> bool:
        """Return whether the last step assigned an offline directory in a partition that has no leader."""
        (step,) = self.steps[-1:] or [{}]
        broker = self.cluster.image.brokers.get(step.get("broker", 0))
        return step.get("api") == ASSIGN_REPLICAS_TO_DIRS.key and any(
            new.leader == NO_LEADER and old.directories != new.directories
            for old, new in zip(before, after, strict=True)
            if broker is not None and not broker.has_directory(new.directory_of(step["broker"]))
        )

    def often(self, chance: float) -> bool:
        return self._random.random() < chance

    def register(self, broker_id: int | None = None) -> None:
        broker_id = broker_id or self._random.choice(BROKERS)
        broker = self.cluster.image.brokers.get(broker_id)
        epoch = broker.broker_epoch if broker is not None and self.often(0.5) else -1
        request = self.cluster.registration(
            broker_id,
            self._random.randint(1, 3),
            previous_broker_epoch=epoch,
            log_dirs=[directory(broker_id, each) for each in range(1, 1 + self._random.randint(1, 2))],
        )
        self.ask(
            BROKER_REGISTRATION,
            4,
            request,
            self.cluster.controller.register_broker,
            lambda answer: answer.error_code or [answer.broker_epoch],
        )

    def heartbeat(self, broker_id: int, **fields: Any) -> None:
        broker = self.cluster.image.brokers.get(broker_id)
        values = {"broker_epoch": -1 if broker is None else broker.broker_epoch}
        request = BROKER_HEARTBEAT.request(broker_id=broker_id, **(values | fields))
        self.ask(
            BROKER_HEARTBEAT,
            2,
            request,
            self.cluster.controller.heartbeat,
            lambda answer: answer.error_code or [answer.is_caught_up, answer.is_fenced, answer.should_shut_down],
        )

    def any_heartbeat(self) -> None:
        broker_id = self._random.choice(BROKERS)
        broker = self.cluster.image.brokers.get(broker_id)
        fields: dict[str, Any] = {
            "current_metadata_offset": self.cluster.log.end_offset - self._random.choice([1, 1, 1, 2, 5]),
            "want_fence": self.often(0.05),
            "want_shut_down": self.often(0.1),
        }
        if broker is not None and broker.is_active and self.often(0.3):
            fields |= {"want_fence": False, "want_shut_down": False}
            if self.often(0.5):
                fields["offline_log_dirs"] = [directory(broker_id, self._random.randint(1, 3))]
            elif broker.log_directories and self.often(0.7):
                fields["cordoned_log_dirs"] = list(broker.log_directories)
            else:
                fields["cordoned_log_dirs"] = []
        self.heartbeat(broker_id, **fields)

    def lapse(self) -> None:
        """Let the session of one broker end, while the others are heard."""
        active = [each for each, broker in self.cluster.image.brokers.items() if not broker.fenced]
        if not active:
            return
        silent = self._random.choice(active if self.often(0.8) else list(self.cluster.image.brokers))
        self.cluster.now_ms += SESSION_MS - 1
        for broker_id, broker in list(self.cluster.image.brokers.items()):
            if broker_id != silent:
                offset = self.cluster.log.end_offset - 1
                leaves = broker.in_controlled_shutdown
                self.heartbeat(
                    broker_id, current_metadata_offset=offset, want_fence=broker.fenced, want_shut_down=leaves
                )
        self.cluster.now_ms += 2
        offset = self.cluster.log.end_offset
        self.cluster.controller._brokers.end_sessions()
        self._note({"api": SESSIONS_END, "version": 0}, offset, [])

    def partition(self) -> tuple[int, PartitionRegistration]:
        index = self._random.choice(PARTITIONS)
        return index, self.cluster.partition(index)

    def alter(self) -> None:
        index, old = self.partition()
        broker_id = old.leader if self.often(0.9) and old.leader > 0 else self._random.choice(BROKERS)
        broker = self.cluster.image.brokers.get(broker_id)
        brokers = self.cluster.image.brokers
        active = [each for each in old.replicas if each in brokers and brokers[each].is_active]
        isr = [each for each in (active if self.often(0.9) else old.replicas) if self.often(0.8)]
        if self.often(0.8) and old.leader > 0 and old.leader not in isr:
            isr.append(old.leader)
        if self.often(0.05):
            isr.append(self._random.choice(BROKERS))
        proposal = self.cluster.proposal(
            index,
            isr,
            leader_epoch=old.leader_epoch + self._random.choice([0] * 12 + [-1, 1]),
            partition_epoch=old.partition_epoch + self._random.choice([0] * 12 + [-1, 1]),
            leader_recovery_state=int(old.leader_recovery_state) if self.often(0.3) else int(self.often(0.05)),
        )
        if self.often(0.1):
            proposal.new_isr_with_epochs[:1] = [ReplicaEpoch(broker_id=each, broker_epoch=-1) for each in isr[:1]]
        topic_id = TOPIC if self.often(0.98) else bytes(15) + b"\x77"
        request = ALTER_PARTITION.request(
            broker_id=broker_id,
            broker_epoch=-1 if broker is None or self.often(0.03) else broker.broker_epoch,
            topics=[AlterTopic(topic_id=topic_id, partitions=[proposal])],
        )
        self.ask(
            ALTER_PARTITION,
            3,
            request,
            self.cluster.controller.alter_partition,
            lambda answer: answer.error_code or wire(ALTER_PARTITION, 3, answer),
        )

    def elect(self) -> None:
        kind = ElectionType.UNCLEAN if self.often(0.5) else ElectionType.PREFERRED
        index, _ = self.partition()
        everything = self.often(0.3)
        topics = None if everything else [TopicPartitions(topic="t", partitions=[index])]
        request = ELECT_LEADERS.request(election_type=int(kind), topic_partitions=topics, timeout_ms=1)
        self.ask(
            ELECT_LEADERS,
            2,
            request,
            lambda _: self.cluster.controller.elect_leaders(kind, None if everything else [("t", index)]),
            lambda results: sorted([each.partition, int(each.error_code)] for each in results),
        )

    def reassign(self) -> None:
        index, old = self.partition()
        wanted: tuple[int, ...] | None = tuple(self._random.sample(BROKERS, self._random.randint(1, 4)))
        if old.is_reassigning or self.often(0.1):
            wanted = None
        partition = ReassignablePartition(partition_index=index, replicas=None if wanted is None else list(wanted))
        topics = [ReassignableTopic(name="t", partitions=[partition])]
        request = ALTER_PARTITION_REASSIGNMENTS.request(timeout_ms=1, topics=topics)
        self.ask(
            ALTER_PARTITION_REASSIGNMENTS,
            1,
            request,
            lambda _: self.cluster.controller.alter_reassignments([("t", index, wanted)]),
            lambda results: [[each.partition, int(each.error_code)] for each in results],
        )

    def assign(self) -> None:
        index, old = self.partition()
        broker_id = self._random.choice(old.replicas) if self.often(0.9) else self._random.choice(BROKERS)
        broker = self.cluster.image.brokers.get(broker_id)
        partitions = [RequestPartitionData(partition_index=index if self.often(0.95) else 99)]
        topics = [RequestTopicData(topic_id=TOPIC, partitions=partitions)]
        number = self._random.choice([1, 2, 2, 3])
        request = ASSIGN_REPLICAS_TO_DIRS.request(
            broker_id=broker_id,
            broker_epoch=-1 if broker is None else broker.broker_epoch,
            directories=[RequestDirectoryData(id=directory(broker_id, number), topics=topics)],
        )
        self.ask(
            ASSIGN_REPLICAS_TO_DIRS,
            0,
            request,
            self.cluster.controller.assign_replicas_to_dirs,
            lambda answer: answer.error_code or wire(ASSIGN_REPLICAS_TO_DIRS, 0, answer),
        )

    def balance(self) -> None:
        offset = self.cluster.log.end_offset
        self.cluster.controller._elections._balance()
        self._note({"api": BALANCE, "version": 0}, offset, [])

    def unregister(self) -> None:
        request = UNREGISTER_BROKER.request(broker_id=self._random.choice(BROKERS))
        self.ask(
            UNREGISTER_BROKER,
            0,
            request,
            self.cluster.controller.unregister_broker,
            lambda answer: answer.error_code or [],
        )

    def configure(self) -> None:
        if self.often(0.5):
            number = str(self._random.randint(1, 4))
            self.append(self._setting(ResourceType.TOPIC, "t", "min.insync.replicas", number))
        else:
            kind, name = self._random.choice([(ResourceType.TOPIC, "t"), (ResourceType.BROKER, "")])
            self.append(self._setting(kind, name, UNCLEAN, self._random.choice(["true", "false"])))


def loses_an_eligible_replica(old: PartitionRegistration, new: PartitionRegistration) -> bool:
    """Return whether Apache Kafka may keep a removed replica among the eligible ones."""
    removed = set(old.replicas) - set(new.replicas)
    return bool(removed & {*old.isr, *old.eligible_leader_replicas})


def is_forced_in_sync(old: PartitionRegistration, new: PartitionRegistration) -> bool:
    """Return whether Apache Kafka puts a replica into the in-sync set for a cancelled reassignment, and ours does not.

    Without eligible replicas ours does, too.
    """
    replicas = without(old.replicas, old.adding_replicas)
    is_cancelled = old.is_reassigning and not new.is_reassigning and new.replicas == replicas
    return is_cancelled and not set(old.isr) & set(replicas) and bool(set(old.eligible_leader_replicas) & set(replicas))


def text_of(record: Any) -> str:
    return base64.b64encode(encode_record(record)).decode()


def wire(api: Api, version: int, response: Struct) -> str:
    return base64.b64encode(api.response.encode(version, response)).decode()


def comparable(step: dict[str, Any], answer: Any) -> Any:
    """Return Apache Kafka's answer as ours is noted."""
    if step["api"] == BROKER_HEARTBEAT.key and isinstance(answer, list):
        return answer[:3]
    if step["api"] == ELECT_LEADERS.key and isinstance(answer, str):
        found = ELECT_LEADERS.response.decode(2, base64.b64decode(answer))[0].replica_election_results
        return sorted([each.partition_id, each.error_code] for topic in found for each in topic.partition_result)
    if step["api"] == ALTER_PARTITION_REASSIGNMENTS.key and isinstance(answer, str):
        found = ALTER_PARTITION_REASSIGNMENTS.response.decode(1, base64.b64decode(answer))[0].responses
        return [[each.partition_index, each.error_code] for topic in found for each in topic.partitions]
    return answer


def described(records: list[str]) -> list[Any]:
    """Return records as a failed test should show them."""
    return [decode_record(base64.b64decode(each)) for each in records]


@pytest.mark.parametrize(("level", "elr"), [(7, False), (17, False), (30, True), (33, True)])
def test_cluster_is_led_as_by_kafka(java: JavaRunner, level: int, elr: bool) -> None:
    random = Random(SEED + level)
    histories = [History(random, level, elr) for _ in range(scaled(20))]
    for history in histories:
        while not history.is_over and len(history.steps) < 200:
            history.step()
    lines = [json.dumps({"cluster_id": CLUSTER_ID, "steps": each.steps}) + "\n" for each in histories]
    done = java.run("org.apache.kafka.controller.DecideCluster", stdin="".join(lines))
    assert done.exit_code == 0, done.stderr
    answers = [line for line in done.stdout.splitlines() if line.startswith("[{")]  # Apache Kafka logs between them
    for history, line in zip(histories, answers, strict=True):
        for step, (records, answer), theirs in zip(history.steps, history.expected, json.loads(line), strict=True):
            if "api" in step:
                assert described(records) == described(sorted(theirs["records"])), step
                assert answer == comparable(step, theirs["answer"]), step
