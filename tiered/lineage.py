"""Which remote segments are those of a log, by its leader epochs (KIP-405).

Replicas that led in turn may have copied the same offsets with different records. A segment belongs to a log if its
records' epochs are those of the log. A lineage is the leader epochs of a log with their first offsets, ascending.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tiered.segment import Epochs, RemoteSegment, SegmentState
from tiered.segments import RemoteSegments

#: The copied offset of a log of which nothing is in remote storage.
NOTHING_COPIED = -1


def with_records(epochs: Epochs) -> Epochs:
    """Return `epochs` without those that have no records: the next one begins at the same offset."""
    return tuple(entry for at, entry in enumerate(epochs, 1) if at == len(epochs) or entry[1] != epochs[at][1])


class Lineage(NamedTuple):
    """The leader epochs of a log, and its end."""

    epochs: Epochs
    log_end_offset: int

    def epoch_of(self, offset: int) -> int | None:
        """Return the leader epoch of the record at `offset`; None before the first epoch."""
        return next((epoch for epoch, start in reversed(self.epochs) if start <= offset), None)

    def end_of(self, epoch: int) -> int:
        """Return the end offset (exclusive) of `epoch`, which is one of the log's epochs."""
        return next((start for number, start in self.epochs if number > epoch), self.log_end_offset)

    def contains(self, segment: RemoteSegment) -> bool:
        """Return whether the records of the segment are records of this log.

        Its epochs are the log's, and change at the same offsets. Only the first one may begin elsewhere: later, as a
        segment begins anywhere in its epoch, or earlier if the log's start was moved up in that epoch.
        """
        if segment.end_offset >= self.log_end_offset:
            return False
        own, others = with_records(self.epochs), with_records(segment.epochs)
        if not own:
            return False
        first = own[0][0]
        common = [entry for entry in others if entry[0] >= first]
        if not common or common[-1][0] > own[-1][0]:
            return False
        starts = dict(own)
        epoch, offset = common[0]
        if epoch not in starts or (epoch != first and offset < starts[epoch]):
            return False
        if common[1:] != [entry for entry in own if epoch < entry[0] <= common[-1][0]]:
            return False
        return segment.end_offset < Lineage(own, self.log_end_offset).end_of(common[-1][0])

    def copied_up_to(self, segments: RemoteSegments, log_start_offset: int) -> int:
        """Return the last offset of the log that remote storage has (inclusive), or NOTHING_COPIED.

        All offsets from the log's start to there are in remote storage. Copies at its start or behind it are gone if a
        topic was not tiered for a while (remote.log.delete.on.disable). Only then are the others looked at one by one.
        """
        copied = self._ever_copied(segments)
        if segments.deleted_up_to < log_start_offset:
            return copied
        offset = log_start_offset
        while offset <= copied:
            epoch = self.epoch_of(offset)
            segment = None if epoch is None else segments.find(epoch, offset)
            if segment is None:
                return offset - 1
            offset = segment.end_offset + 1
        return copied

    def _ever_copied(self, segments: RemoteSegments) -> int:
        """Return the last offset that was ever copied.

        The epochs are asked from the last one back, because another replica may have copied more of an epoch than
        this log has.
        """
        for epoch, _ in reversed(self.epochs):
            highest = segments.highest_offset(epoch)
            if highest is not None:
                return min(highest, self.end_of(epoch) - 1)
        return NOTHING_COPIED

    def remote_start(self, segments: RemoteSegments) -> int | None:
        """Return the first offset that remote storage has of the log; None if it has none."""
        found = (segment for epoch, _ in self.epochs for segment in segments.walk(epoch))
        return next((each.start_offset for each in found if each.state is SegmentState.COPY_FINISHED), None)


def with_epochs_of_copies(segments: RemoteSegments, lineage: Lineage, log_start_offset: int) -> Epochs:
    """Return the epochs of a log, with those before its first one that finished copies have.

    They are missing after `leader-epoch-checkpoint` was lost, because it is rebuilt from the records on the disk. The
    copies are walked from the log's first known offset back to its start. The walk ends at a gap, and at an offset of
    which several epochs have copies: it is unknown which of them an unclean election has lost.
    """
    found = list(lineage.epochs)
    if not found:
        return lineage.epochs
    known = sorted(segments.epochs, reverse=True)
    epoch, start_offset = found[0]
    while start_offset > log_start_offset:
        candidates = (segments.find(each, start_offset - 1) for each in known if each <= epoch)
        copies = [each for each in candidates if each is not None]
        if len(copies) != 1:
            break
        [copy] = copies
        for earlier, start in reversed([each for each in copy.epochs if each[0] <= epoch and each[1] < start_offset]):
            if found[0][1] <= log_start_offset:
                break
            if earlier == found[0][0]:
                found.pop(0)
            found.insert(0, (earlier, max(start, log_start_offset)))
        epoch, start_offset = found[0]
    return tuple(found)


def clamped(epochs: Sequence[tuple[int, int]], start_offset: int, end_offset: int) -> Epochs:
    """Return the epochs of the offsets from `start_offset` to `end_offset` (exclusive); the first begins there."""
    before = [entry for entry in epochs if entry[1] <= start_offset][-1:]
    within = [entry for entry in epochs if start_offset < entry[1] < end_offset]
    return tuple([(epoch, start_offset) for epoch, _ in before] + within)
