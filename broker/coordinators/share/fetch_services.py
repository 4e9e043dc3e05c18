"""The services of the process that share fetches need."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from broker.coordinators.share.partitions import SharePartitions
    from broker.replicas.partitions import Partitions
    from broker.replicas.remote_reads import RemoteReads
    from broker.replicas.time_look_ups import TimeLookUps
    from runtime.clock import Clock
    from runtime.purgatory import Purgatory


class ShareFetchServices(NamedTuple):
    """The clock, and the share-partitions of this process. `remote_reads` is None without tiered storage."""

    clock: Clock
    purgatory: Purgatory
    time_look_ups: TimeLookUps
    partitions: Partitions
    share_partitions: SharePartitions
    remote_reads: RemoteReads | None = None
