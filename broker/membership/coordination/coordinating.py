"""The coordinators of a member: they move with the leadership of their partitions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from broker.coordinator_process import CoordinatorProcess
from broker.membership.coordination.committed_answers import (
    OF_GROUPS,
    OF_SHARES,
    OF_TRANSACTIONS,
    CommittedAnswers,
    CommittedApi,
)
from broker.membership.coordination.committed_shard_log import CommittedShardLog
from broker.membership.coordination.peer_end_offsets import PeerEndOffsets
from broker.membership.coordination.peer_markers import PeerMarkers
from broker.membership.coordination.peer_requests import PeerRequests
from broker.membership.coordination.peer_share_states import PeerShareStates
from broker.membership.coordination.peer_verifier import PeerVerifier
from broker.membership.coordination.share_state_requests import ShareStateRequests
from broker.membership.coordination.txn_offset_commits import VerifiedCommits
from metadata.topic_names import SHARE_GROUP_STATE
from protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from broker.coordinators.group.coordinator import GroupController
    from broker.coordinators.transaction.markers import MarkerWriter
    from broker.membership.peers import Peers
    from broker.replicas.leader_reads import LeaderReads
    from broker.replicas.own_appends import OwnAppends
    from broker.replicas.partition import Partition
    from broker.requests.served_api import ServedApi
    from broker.services import ShareServices
    from metadata.delta import Delta


class CoordinatingMember(CoordinatorProcess):
    """A process whose coordinators serve the keys of the partitions that it leads."""

    peers: Peers
    _requests: PeerRequests | None = None
    _share_requests: ShareStateRequests

    def coordinate(self, partition: Partition) -> None:
        """Load what the coordinators keep in a partition, which this broker leads from now on."""
        self.groups.partition_led(partition)
        self.share_coordinator.partition_led(partition)
        self.transactions.partition_led(partition)

    # -- other brokers -------------------------------------------------------------------------------------------------

    def _wire_coordinators(self, controller: GroupController) -> None:
        requests = self._requests = PeerRequests(self.peers, f"broker-{self.config.node_id}-coordinators")
        super()._wire_coordinators(controller)
        for coordinator in (self.groups, self.transactions, self.share_coordinator):
            coordinator.shard_log = CommittedShardLog
        image = self.metadata.image
        self.verifier = PeerVerifier(
            self.config, image, self.verifier, requests, self.partitions, self.clock, self.timers
        )

        self.end_offsets = PeerEndOffsets(
            self.config.node_id, image, self.partitions, requests, self.timers, self.loop.call_soon
        )
        self.metadata.on_change(self._retry_requests)

    def _retry_requests(self, delta: Delta) -> None:
        """Repeat the requests that wait for partitions with another leader, once this broker follows the change."""
        moved = {(topic.name, index) for (_, index), topic in delta.changed_partitions.items()}
        if moved:
            self.loop.call_soon(self.transactions.retry_markers, moved.__contains__)
        if any(name == SHARE_GROUP_STATE for name, _ in moved):
            self.loop.call_soon(self._share_requests.coordinators_moved)

    def _share_states(self) -> PeerShareStates:
        assert self._requests is not None
        config, own = self.config, self.share_coordinator
        requests = self._share_requests = ShareStateRequests(
            config.node_id,
            self.metadata.image,
            own,
            self._requests,
            self.clock,
            self.timers,
            self.loop.call_soon,
            config.get_int("request.timeout.ms"),
        )
        return PeerShareStates(requests, own, self.timers)

    @cached_property
    def shares(self) -> ShareServices:
        services = super().shares
        services.share_partitions.drop_states_of_empty_groups()
        return services

    @cached_property
    def own_appends(self) -> OwnAppends:
        from broker.membership.coordination.peer_appends import PeerAppends  # few brokers need it

        assert self._requests is not None
        timeout_ms = self.config.get_int("request.timeout.ms")
        own, image = self.partition_appends, self.metadata.image
        return PeerAppends(self.config.node_id, image, own, self._requests, timeout_ms)

    @cached_property
    def leader_reads(self) -> LeaderReads:
        from broker.membership.coordination.peer_reads import PeerReads  # only tiered storage needs it

        assert self._requests is not None
        return PeerReads(self.metadata.image, self._requests)

    def _marker_writer(self) -> MarkerWriter:
        assert self._requests is not None
        node_id, image = self.config.node_id, self.metadata.image
        return PeerMarkers(node_id, image, self.markers, self._requests, self.loop.call_soon)

    def _close_pools(self) -> None:
        if self._requests is not None:
            self._requests.close()
        super()._close_pools()

    # -- answers -------------------------------------------------------------------------------------------------------

    def _committed_apis(self, served: Mapping[int, ServedApi]) -> dict[int, ServedApi]:
        """Return the same APIs, of which those of coordinators answer only what is committed."""
        return {key: self._committed_api(key, each) for key, each in served.items()}

    def _committed_api(self, key: int, served: ServedApi) -> ServedApi:
        def services() -> Mapping[str, object]:
            return self.dispatcher.services

        if key in OF_TRANSACTIONS:
            return CommittedApi(served, OF_TRANSACTIONS[key], services, self._transaction_answers)
        if key in OF_SHARES:
            return CommittedApi(served, OF_SHARES[key], services, self._share_answers)
        if key not in OF_GROUPS:
            return served
        if key == ApiKey.TXN_OFFSET_COMMIT:
            served = VerifiedCommits(served, self.config.node_id, services)
        return CommittedApi(served, OF_GROUPS[key], services, self._group_answers)

    def _group_answers(self) -> CommittedAnswers:
        timeout_ms = self.config.get_int("offsets.commit.timeout.ms")
        return CommittedAnswers(self.groups, self.durability, self.timers, timeout_ms)

    def _transaction_answers(self) -> CommittedAnswers:
        timeout_ms = self.config.get_int("request.timeout.ms")
        return CommittedAnswers(self.transactions, self.durability, self.timers, timeout_ms)

    def _share_answers(self) -> CommittedAnswers:
        timeout_ms = self.config.get_int("share.coordinator.write.timeout.ms")
        return CommittedAnswers(self.share_coordinator, self.durability, self.timers, timeout_ms)
