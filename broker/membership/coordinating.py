"""The coordinators of a member: they move with the leadership of their partitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from broker.coordinator_process import CoordinatorProcess
from broker.membership.committed_answers import OF_GROUPS, CommittedAnswers, CommittedApi

if TYPE_CHECKING:
    from broker.membership.peers import Peers
    from broker.replicas.partition import Partition
    from broker.requests.served_api import ServedApi


class CoordinatingMember(CoordinatorProcess):
    """A process whose coordinators serve the keys of the partitions that it leads."""

    peers: Peers

    def coordinate(self, partition: Partition) -> None:
        """Load what the coordinators keep in a partition, which this broker leads from now on."""
        self.groups.partition_led(partition)
        self.share_coordinator.partition_led(partition)
        self.transactions.partition_led(partition)

    def _committed_apis(self, served: Mapping[int, ServedApi]) -> dict[int, ServedApi]:
        """Return the same APIs, of which those of coordinators answer only what is committed."""
        return {
            key: CommittedApi(each, OF_GROUPS[key], lambda: self.dispatcher.services, self._group_answers)
            if key in OF_GROUPS
            else each
            for key, each in served.items()
        }

    def _group_answers(self) -> CommittedAnswers:
        timeout_ms = self.config.get_int("offsets.commit.timeout.ms")
        return CommittedAnswers(self.groups, self.durability, self.timers, timeout_ms)
