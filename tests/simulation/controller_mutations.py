"""Faults of pybroker's own controller: of its decisions, and of its answers."""

from __future__ import annotations

from functools import partial
from typing import Any

from controller.broker_life import BrokerLife
from controller.cluster_controller import ClusterController
from controller.replica_index import ReplicaIndex
from controller.topic_settings import TopicSettings
from metadata import alter_partition, broker_registration, partition_change
from metadata.partition_change import Elected, Election
from protocol.error_codes import ErrorCode
from runtime.deferred import Deferred
from tests.simulation.mutation import mutation

planted = partial(mutation, own_controller=True)


@planted(
    "own-fenced-replica-joins",
    "a broker that is fenced, or leaves, enters the ISR (KIP-841)",
    (alter_partition, "_is_eligible"),
    is_rare=True,
)
def _is_registered(image: Any, broker_id: int, broker_epoch: int) -> bool:
    broker = image.brokers.get(broker_id)
    return broker is not None and broker_epoch in (alter_partition.ANY_EPOCH, broker.broker_epoch)


@planted(
    "own-restarted-replica-joins",
    "a broker that has restarted since it was in sync enters the ISR (KIP-903)",
    (alter_partition, "_is_eligible"),
    is_rare=True,
)
def _is_active(image: Any, broker_id: int, broker_epoch: int) -> bool:
    broker = image.brokers.get(broker_id)
    return broker is not None and broker.is_active


_problem = alter_partition._problem


@planted(
    "own-stale-partition-epoch",
    "an ISR that is based on an older one is accepted",
    (alter_partition, "_problem"),
    is_rare=True,
)
def _accept_older(image: Any, broker_id: int, old: Any, proposal: Any) -> ErrorCode:
    error = _problem(image, broker_id, old, proposal)
    return ErrorCode.NONE if error is ErrorCode.INVALID_UPDATE_VERSION else error


@planted("own-former-leader", "the ISR of a former leader is accepted", (alter_partition, "_problem"))
def _accept_former(image: Any, broker_id: int, old: Any, proposal: Any) -> ErrorCode:
    error = _problem(image, broker_id, old, proposal)
    return ErrorCode.NONE if error in (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.INVALID_REQUEST) else error


@planted(
    "own-unclean-start",
    "a broker that crashed stays eligible (KIP-966)",
    (broker_registration, "_stopped_in_order"),
)
def _always_in_order(existing: Any, request: Any) -> bool:
    return existing is not None


_elect = partition_change._elect


@planted(
    "own-eligible-replicas-ignored",
    "no eligible replica is elected when none is in sync (KIP-966)",
    (partition_change, "_elect"),
)
def _elect_in_sync(partition: Any, target: Any, eligible: Any, rules: Any, election: Election) -> Elected:
    return _elect(partition, target, (), rules, election)


@planted("own-unclean-by-default", "a replica that is not in sync leads", (TopicSettings, "may_be_unclean"))
def _may_always(self: TopicSettings, topic: str) -> bool:
    return True


_answer = ClusterController._answer


@planted(
    "own-answers-before-sync",
    "the controller answers before its records are on the disk",
    (ClusterController, "_answer"),
    is_rare=True,
)
def _answer_at_once(self: ClusterController, decide: Any, refused: Any) -> Any:
    found: list[Any] = []

    def decide_and_keep() -> Any:
        found.append(decide())
        return found[0]

    answer = _answer(self, decide_and_keep, refused)
    return Deferred.resolved(found[0]) if found else answer


@planted("own-index-stands-still", "the partitions of a broker are those at the start", (ReplicaIndex, "publish"))
def _publish_new(self: ReplicaIndex, delta: Any) -> None:
    for topic, number in delta.created_partitions:
        self._follow((topic.topic_id, number))


@planted(
    "own-failed-directory-leads",
    "the leaders in a failed log directory stay (KIP-858)",
    (BrokerLife, "_take_offline"),
    is_rare=True,
)
def _take_nothing_offline(self: BrokerLife, broker_id: int, offline: Any) -> None:
    """Move no leader."""
