"""All planted faults: the simulation must catch each of them.

Each is a trap of replication that brokers have had: an anomaly of a KIP, or a defect of Apache Kafka (KAFKA-...).
"""

from tests.simulation import (
    cluster_mutations,
    controller_mutations,
    follower_mutations,
    leader_mutations,
    placement_mutations,
    session_mutations,
    transaction_mutations,
)
from tests.simulation.mutation import MUTATIONS, Mutation, planted

__all__ = [
    "MUTATIONS",
    "Mutation",
    "cluster_mutations",
    "controller_mutations",
    "follower_mutations",
    "leader_mutations",
    "placement_mutations",
    "planted",
    "session_mutations",
    "transaction_mutations",
]
