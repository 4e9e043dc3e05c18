"""Check what only the metadata log has: snapshots, quorum-state, and that its records give an image of the cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field

from controller.metadata_snapshot import read_snapshot, snapshots_in
from controller.quorum_state import FILE_NAME as QUORUM_STATE
from controller.quorum_state import read_quorum_state
from metadata.framing import decode_record
from metadata.image import MetadataImage
from metadata.loading import MetadataLoader
from metadata.replay import ReplayError
from protocol.error_codes import ProtocolError
from protocol.records.batch import parse_header
from protocol.records.errors import RecordsError
from protocol.records.record import iter_batch_records
from storage.errors import CorruptFile
from storage.fs import LOCAL
from tools.data.checks.findings import Finding, Kind
from tools.data.log_reader import LogReader
from tools.errors import DumpFailed

_UNREADABLE = (CorruptFile, ProtocolError, RecordsError, ReplayError)


_QUORUM_FIELDS = (
    {"clusterId", "leaderId", "leaderEpoch", "votedId", "appliedOffset", "currentVoters", "data_version"},
    {"leaderId", "leaderEpoch", "votedId", "votedDirectoryId", "data_version"},
)


def snapshot_headers(path: str, kind: Kind) -> Iterator[Finding]:
    """Check the bytes of a readable snapshot that no checksum covers: offsets must have no gaps, and one epoch."""
    next_offset, epoch = 0, None
    with LogReader(path) as reader:
        for entry in reader.entries():
            header = parse_header(entry.head)
            epoch = header.leader_epoch if epoch is None else epoch
            if (header.base_offset, header.leader_epoch) != (next_offset, epoch):
                what = f"the batch has offset {header.base_offset} and epoch {header.leader_epoch}"
                yield Finding(path, kind, f"{what}, not {next_offset} and {epoch}", position=entry.position)
                return
            next_offset = header.next_offset


@dataclass(slots=True)
class MetadataCheck:
    """The check of the metadata log. `image` is the image that its records give, None if some are unreadable."""

    path: str
    image: MetadataImage | None = None
    found: list[Finding] = field(default_factory=list)

    def run(self) -> list[Finding]:
        """Return the findings. Raises OSError."""
        start, loader = self._snapshots()
        self._quorum_state()
        try:
            offset = self._replay(loader, start)
        except ReplayError as error:
            self.found.append(Finding(self.path, Kind.METADATA, str(error)))
        else:
            if offset is not None:
                self.image = loader.image
        return self.found

    def _snapshots(self) -> tuple[int, MetadataLoader]:
        """Check all snapshots; return the end offset of the newest usable one and a loader that has replayed it."""
        start, loader = 0, MetadataLoader()
        for snapshot_id in snapshots_in(LOCAL, self.path):
            path = f"{self.path}/{snapshot_id.file_name}"
            candidate = MetadataLoader()
            try:
                for record in read_snapshot(LOCAL, path).records:
                    candidate.feed(record)
            except _UNREADABLE as error:
                reason = error.reason if isinstance(error, CorruptFile) else str(error)
                self.found.append(Finding(path, Kind.METADATA_SNAPSHOT, reason))
            else:
                start, loader = snapshot_id.end_offset, candidate
                self.found += snapshot_headers(path, Kind.METADATA_SNAPSHOT)
        return start, loader

    def _quorum_state(self) -> None:
        path = f"{self.path}/{QUORUM_STATE}"
        try:
            state = read_quorum_state(LOCAL, self.path)
        except CorruptFile as error:
            self.found.append(Finding(path, Kind.QUORUM_STATE, error.reason))
            return
        if state is not None and json.loads(LOCAL.read_file(path)).keys() != _QUORUM_FIELDS[state.version]:
            self.found.append(Finding(path, Kind.QUORUM_STATE, "the fields are not those of quorum-state"))

    def _replay(self, loader: MetadataLoader, start: int) -> int | None:
        """Replay the records from `start` on; return their end offset, None if some cannot be read."""
        offset = start
        for path in sorted(f"{self.path}/{entry.name}" for entry in LOCAL.list(self.path)):
            if not path.endswith(".log"):
                continue
            for position, record_offset, value in self._records(path, start):
                if offset == start and record_offset > start:
                    what = f"no snapshot covers the records before offset {record_offset}"
                    self.found.append(Finding(path, Kind.METADATA, what, position=position, offset=record_offset))
                    return None
                offset = record_offset + 1
                if value is None:
                    continue
                try:
                    loader.feed(decode_record(value))
                except (ProtocolError, ReplayError) as error:
                    what = f"the record cannot be used: {error}"
                    self.found.append(Finding(path, Kind.METADATA, what, position=position, offset=record_offset))
                    return None
        return offset

    def _records(self, path: str, start: int) -> Iterator[tuple[int, int, bytes | None]]:
        """Yield (position of the batch, offset, value) of records from `start` on; control records have no value."""
        with LogReader(path) as reader:
            try:
                for entry in reader.entries():
                    if entry.magic != 2 or not reader.checksum(entry)[1]:
                        return  # LogCheck reports it
                    header = parse_header(entry.head)
                    if header.last_offset < start:
                        continue
                    for record in iter_batch_records(reader.whole(entry), header):
                        if record.offset >= start:
                            yield entry.position, record.offset, None if header.is_control else record.value
            except (RecordsError, DumpFailed):
                return
