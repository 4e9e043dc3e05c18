"""Controllers alone, of pybroker and of Apache Kafka, with the same settings."""

from __future__ import annotations

from collections.abc import Mapping

from bench.comparison import cluster
from tests.support.brokers import CLUSTER_ID, OurBroker, RunningBroker
from tests.support.cluster_keys import controller_keys

#: Twice the default, for busy machines. Simulated brokers send heartbeats every two seconds, as brokers do.
SESSION_S = 18
#: No broker has this id.
_NODE_ID = 10_000
_SETTINGS = {"broker.session.timeout.ms": f"{SESSION_S}000", "auto.leader.rebalance.enable": "false"}


class OurController(OurBroker):
    """pybroker as a controller alone."""

    kind = "ours"
    node_id = _NODE_ID

    def _own_properties(self) -> dict[str, str]:
        return {
            **controller_keys(self.node_id, self.port),
            "pybroker.cluster.id": CLUSTER_ID,
            **_SETTINGS,
        }


class KafkaController(cluster.Controller):
    """Apache Kafka as a controller alone, the only voter."""

    kind = "kafka"
    node_id = _NODE_ID

    def _own_properties(self) -> dict[str, str]:
        return {**super()._own_properties(), **_SETTINGS}


KINDS: Mapping[str, type[RunningBroker]] = {each.kind: each for each in (OurController, KafkaController)}
