"""Counts of what replication has done since the start of the broker, for metrics."""

from __future__ import annotations

import msgspec


class ReplicationCounts(msgspec.Struct):
    """Counts of one run. Bytes are those of records: copied from leaders, and sent to followers.

    `added_bytes_*` are those of replicas that a reassignment adds.
    """

    bytes_in: int = 0
    bytes_out: int = 0
    added_bytes_in: int = 0
    added_bytes_out: int = 0
    isr_shrinks: int = 0
    isr_expands: int = 0
    #: Proposed ISRs that the controller refused, or that another change overtook.
    failed_isr_updates: int = 0

    def note_isr(self, before: int, after: int) -> None:
        """Count a change of an ISR of a partition that this broker leads, by its sizes."""
        self.isr_shrinks += after < before
        self.isr_expands += after > before
