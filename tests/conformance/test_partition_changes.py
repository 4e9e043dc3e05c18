"""Changes of partitions are decided as by the controller of Apache Kafka.

Ours differ on purpose in two cases, which are left out:
- A removed replica is no longer eligible to lead (KIP-966). Apache Kafka keeps it among the eligible ones.
- The last leader of a partition without one is not elected if it is no replica any more. In Apache Kafka it may be.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from random import Random
from typing import Any

from metadata.features import DIRECTORIES_LEVEL, ELR_LEVEL, EPOCH_KEPT_LEVEL, MAX_METADATA_VERSION, MIN_METADATA_VERSION
from metadata.partition_change import Election, Rules, Wanted, change_of
from metadata.partition_registration import LeaderRecoveryState, PartitionRegistration
from tests.support.java import JavaRunner
from tests.support.scale import scaled
from tests.support.wire_frames import camel

SEED = 966
BROKERS = range(8)
VERSIONS = [
    *(MIN_METADATA_VERSION, EPOCH_KEPT_LEVEL - 1, EPOCH_KEPT_LEVEL),
    *(DIRECTORIES_LEVEL - 1, DIRECTORIES_LEVEL, ELR_LEVEL, MAX_METADATA_VERSION, MAX_METADATA_VERSION),
]


class Cases:
    """Random partitions, and random changes of them: JSON as the Java program reads it."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def some(self, brokers: Iterable[int], share: float = 0.4) -> list[int]:
        found = [each for each in brokers if self._random.random() < share]
        self._random.shuffle(found)
        return found

    def often(self, chance: float) -> bool:
        return self._random.random() < chance

    def next(self) -> dict[str, Any]:
        random = self._random
        version = random.choice(VERSIONS)
        has_eligible_replicas = version >= ELR_LEVEL and self.often(0.7)
        partition = self.partition(version, has_eligible_replicas)
        replicas = partition["replicas"]
        election = random.choice(["ONLINE", "ONLINE", "PREFERRED", "UNCLEAN"])
        case = {
            "metadata_version": version,
            "has_eligible_replicas": has_eligible_replicas,
            "min_isr": random.randint(1, 4),
            "active": self.some(BROKERS, 0.7),
            "election": election,
            "lost": self.some(replicas) if self.often(0.3) else [],
            "directories": {str(each): random.randint(1, 3) for each in self.some(replicas)},
            "partition": partition,
        }
        wanted: dict[str, tuple[float, Any]] = {
            "isr": (0.5, self.some(replicas, 0.6)),
            "replicas": (0.2, self.some(BROKERS) or [replicas[0]]),
            "removing": (0.2, self.some(replicas)),
            "adding": (0.2, self.some(BROKERS)),
            "recovery_state": (0 if election == "UNCLEAN" else 0.1, random.randrange(2)),  # only a leader asks for it
        }
        return case | {name: value for name, (chance, value) in wanted.items() if self.often(chance)}

    def partition(self, version: int, has_eligible_replicas: bool) -> dict[str, Any]:
        random = self._random
        replicas = random.sample(BROKERS, random.randint(1, 5))
        isr = self.some(replicas, 0.6) or ([] if has_eligible_replicas else replicas[:1])
        elr = [each for each in self.some(replicas) if each not in isr] if version >= ELR_LEVEL else []
        last = [each for each in self.some(replicas) if each not in isr + elr] if version >= ELR_LEVEL else []
        is_reassigned = self.often(0.4)
        return {
            "replicas": replicas,
            "isr": isr,
            "leader": random.choice([*isr, -1, random.choice(replicas)]),
            "directories": [random.randint(1, 3) if version >= DIRECTORIES_LEVEL else 0 for _ in replicas],
            "removing_replicas": self.some(replicas) if is_reassigned else [],
            "adding_replicas": self.some(replicas) if is_reassigned else [],
            "eligible_leader_replicas": elr,
            "last_known_elr": last,
            "leader_recovery_state": int(self.often(0.2)),
        }


def numbered(kind: int, number: int) -> bytes:
    """Return the directory id that the Java program calls so."""
    return kind.to_bytes(8) + number.to_bytes(8)


def ours(case: dict[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in case["partition"].items()
    }
    fields["directories"] = tuple(numbered(8, each) for each in fields["directories"])
    partition = PartitionRegistration(**fields, leader_epoch=5, partition_epoch=7)
    wanted = Wanted(
        **{name: tuple(case[name]) for name in ("isr", "replicas", "removing", "adding") if name in case},
        recovery_state=LeaderRecoveryState(case["recovery_state"]) if "recovery_state" in case else None,
        lost=case["lost"],
        election=Election[case["election"]],
        directories={int(broker): numbered(8, each) for broker, each in case["directories"].items()},
    )
    rules = Rules(
        metadata_version=case["metadata_version"],
        has_eligible_replicas=case["has_eligible_replicas"],
        may_lead=lambda broker: broker in case["active"],
        default_directory=lambda broker: numbered(9, broker),
    )
    return change_of(partition, case["min_isr"], rules, wanted)


def loses_an_eligible_replica(case: dict[str, Any], fields: dict[str, Any]) -> bool:
    """Return whether a replica is removed that Apache Kafka keeps among the eligible ones."""
    partition = case["partition"]
    removed = set(partition["replicas"]) - set(fields.get("replicas", partition["replicas"]))
    candidates = {*partition["isr"], *partition["eligible_leader_replicas"]}
    return bool(case["has_eligible_replicas"] and removed & candidates)


def elects_a_removed_leader(case: dict[str, Any], fields: dict[str, Any], expected: dict[str, Any]) -> bool:
    """Return whether Apache Kafka elects the last leader, which is no replica any more."""
    last = case["partition"]["last_known_elr"]
    replicas = fields.get("replicas", case["partition"]["replicas"])
    return case["has_eligible_replicas"] and last == [expected.get("leader")] and last[0] not in replicas


def readable(field: str, value: Any) -> Any:
    if field == "directories":
        return [base64.urlsafe_b64encode(each).decode().rstrip("=") for each in value]
    return value


def test_changes_are_those_of_kafka(java: JavaRunner) -> None:
    cases = Cases(Random(SEED))
    asked = [cases.next() for _ in range(scaled(2000))]
    done = java.run("DecidePartitions", stdin="".join(json.dumps(each) + "\n" for each in asked))
    assert done.exit_code == 0, done.stderr
    compared = 0
    for case, line in zip(asked, done.stdout.splitlines(), strict=True):
        found = ours(case)
        expected = json.loads(line) or {}
        if loses_an_eligible_replica(case, found) or elects_a_removed_leader(case, found, expected):
            continue
        compared += 1
        for name in ("topicId", "partitionId"):
            expected.pop(name, None)
        assert {camel(name): readable(name, value) for name, value in found.items()} == expected, case
    assert compared > len(asked) * 0.7
