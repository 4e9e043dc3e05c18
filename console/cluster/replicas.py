"""The replicas of a cluster: which broker leads and follows, which partitions lack replicas, and which move."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from confluent_kafka import KafkaError

from console.cluster.client import TIMEOUT_S, Client
from pybroker.cli.client.assignments import Place
from pybroker.cli.client.errors import CommandError
from pybroker.cli.reassign import Move, moves

#: More partitions than these are counted, but not listed.
MOST_PARTITIONS = 200


@dataclass(frozen=True, slots=True)
class BrokerLine:
    """A broker with its numbers of partitions. Without an address it is away: stopped or fenced."""

    id: int
    address: str | None
    rack: str | None
    leads: int
    replicas: int
    out_of_sync: int


@dataclass(frozen=True, slots=True)
class PartitionLine:
    """A partition that lacks replicas. Without a leader, `leader` is None."""

    topic: str
    number: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Replicas:
    """The brokers; the partitions that lack replicas, those without a leader first; and the moves.

    `moves` is None if the user may not see them, or if no controller tells them: `moves_trouble` is the reason then.
    `lacking_count` counts also those that are not listed.
    """

    brokers: list[BrokerLine]
    lacking: list[PartitionLine]
    lacking_count: int
    moves: dict[Place, Move] | None
    moves_trouble: str | None = None


def replicas(client: Client) -> Replicas:
    """Return the replicas of all partitions that the user may describe."""
    with client.session() as session:
        nodes = session.wait(session.admin.describe_cluster(request_timeout=TIMEOUT_S)).nodes
        topics = session.admin.list_topics(timeout=TIMEOUT_S).topics
        partitions = [
            PartitionLine(
                name, each.id, each.leader if each.leader >= 0 else None, tuple(each.replicas), tuple(each.isrs)
            )
            for name, topic in topics.items()
            for each in topic.partitions.values()
        ]
        moving, trouble = None, None
        try:
            with session.administration() as administration:
                moving = moves(administration)
        except CommandError as error:
            if error.error_code != KafkaError.CLUSTER_AUTHORIZATION_FAILED:
                trouble = str(error)
    leads = Counter(each.leader for each in partitions)
    has = Counter(broker for each in partitions for broker in each.replicas)
    out = Counter(broker for each in partitions for broker in set(each.replicas) - set(each.isr))
    known = {node.id: node for node in nodes}
    brokers = [
        BrokerLine(
            id_,
            f"{known[id_].host}:{known[id_].port}" if id_ in known else None,
            known[id_].rack if id_ in known else None,
            leads[id_],
            has[id_],
            out[id_],
        )
        for id_ in sorted(known.keys() | has.keys())
    ]
    lacking = [each for each in partitions if each.leader is None or len(each.isr) < len(each.replicas)]
    lacking.sort(key=lambda each: (each.leader is not None, len(each.isr), each.topic, each.number))
    return Replicas(brokers, lacking[:MOST_PARTITIONS], len(lacking), moving, trouble)
