"""Check whole log directories: their own files, each partition in them, and that all of these agree."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from controller.directory_checks import METADATA_LOG
from controller.metadata_snapshot import BOOTSTRAP_FILE, read_snapshot
from metadata.image import MetadataImage
from metadata.partition_registration import is_reserved_directory
from protocol.error_codes import ProtocolError
from protocol.id_text import id_bytes, id_text
from protocol.records.errors import RecordsError
from storage.checkpoints import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    META_PROPERTIES,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    MetaProperties,
    TopicPartition,
    read_clean_shutdown,
    read_lines,
    read_meta_properties,
    read_topic_id,
)
from storage.directory_names import DirectoryKind, parse_name
from storage.errors import CorruptFile
from storage.fs import LOCAL
from storage.recovery.log_dir_scan import METADATA_TOPIC
from tools.data.checks.findings import Finding, Kind, Severity
from tools.data.checks.log import LogCheck, LogOptions, Progress
from tools.data.checks.metadata import MetadataCheck, snapshot_headers

#: The offset that each checkpoint file stores per partition; none may be beyond the end of the log.
CHECKPOINTS = {
    RECOVERY_POINTS: "recovery point",
    HIGH_WATERMARKS: "high watermark",
    LOG_START_OFFSETS: "log start offset",
    CLEANER_OFFSETS: "cleaner offset",
}


@dataclass(slots=True)
class Extent:
    """The start and end offset of a partition's log, according to its segments."""

    path: str
    start_offset: int
    end_offset: int


def _is_clean_mark(data: bytes) -> bool:
    """Return whether `data` is the content of the clean shutdown file."""
    try:
        mark = json.loads(data)
        return isinstance(mark, dict) and mark.keys() == {"version", "brokerEpoch"} and mark["version"] == 0
    except (ValueError, RecursionError):
        return False


@dataclass(slots=True)
class DirectoryCheck:
    """One log directory. The checks fill `extents` and `offsets` (by checkpoint file)."""

    path: str
    deep: bool = False
    progress: Progress = lambda size: None
    clean: bool = False
    properties: MetaProperties | None = None
    directory_id: bytes | None = None
    partitions: dict[TopicPartition, str] = field(default_factory=dict)
    extents: dict[TopicPartition, Extent] = field(default_factory=dict)
    offsets: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)
    #: The text of the finding for an empty file of recovery points, reported once; "" after that.
    _no_recovery_points: str | None = None

    def own_files(self) -> Iterator[Finding]:
        """Check the directory's own files and collect its partitions. Raises OSError."""
        self.clean = read_clean_shutdown(LOCAL, self.path) is not None
        if self.clean and not _is_clean_mark(LOCAL.read_file(f"{self.path}/{CLEAN_SHUTDOWN}")):
            yield Finding(
                f"{self.path}/{CLEAN_SHUTDOWN}", Kind.CLEAN_SHUTDOWN, "the content is not that of a clean stop"
            )
        yield from self._meta_properties()
        yield from self._bootstrap()
        for name in CHECKPOINTS:
            yield from self._checkpoint(name)
        for entry in sorted(LOCAL.list(self.path)):
            if not entry.is_directory:
                if entry.name.endswith(".tmp"):
                    what = "an unfinished file that is never read"
                    yield Finding(f"{self.path}/{entry.name}", Kind.LEFTOVER, what, Severity.NOTE)
                continue
            kind, topic, partition = parse_name(entry.name)
            path = f"{self.path}/{entry.name}"
            if kind is DirectoryKind.PARTITION:
                self.partitions[topic, partition] = path
            elif kind is DirectoryKind.DELETED:
                yield Finding(path, Kind.LEFTOVER, "a deleted partition; the next start removes it", Severity.NOTE)
            elif kind is DirectoryKind.FUTURE:
                what = f"a copy of {topic}-{partition} that is to take its place; the next start goes on with it"
                yield Finding(path, Kind.LEFTOVER, what, Severity.NOTE)
            elif kind is DirectoryKind.STRAY:
                what = "a stray partition, whose topic was deleted or moved; it was set aside"
                yield Finding(path, Kind.LEFTOVER, what, Severity.NOTE)

    def _meta_properties(self) -> Iterator[Finding]:
        path = f"{self.path}/{META_PROPERTIES}"
        try:
            self.properties = read_meta_properties(LOCAL, self.path)
            if self.properties is None:
                yield Finding(path, Kind.META_PROPERTIES, "the file is missing: the directory is not formatted")
            elif self.properties.directory_id is not None:
                self.directory_id = id_bytes(self.properties.directory_id)
        except CorruptFile as error:
            yield Finding(path, Kind.META_PROPERTIES, error.reason)
        except ValueError as error:
            yield Finding(path, Kind.META_PROPERTIES, f"directory.id: {error}")

    def _bootstrap(self) -> Iterator[Finding]:
        path = f"{self.path}/{BOOTSTRAP_FILE}"
        if not LOCAL.exists(path):
            return
        try:
            read_snapshot(LOCAL, path)
        except (CorruptFile, ProtocolError, RecordsError) as error:
            yield Finding(path, Kind.BOOTSTRAP, getattr(error, "reason", str(error)))
        else:
            yield from snapshot_headers(path, Kind.BOOTSTRAP)

    def _checkpoint(self, name: str) -> Iterator[Finding]:
        path = f"{self.path}/{name}"
        found = self.offsets[name] = {}
        lines, what = None, "there are no recovery points, though the stop was clean"
        try:
            lines = read_lines(LOCAL, path)
        except CorruptFile as error:
            if LOCAL.read_file(path):  # Apache Kafka makes them empty at its first start
                yield Finding(path, Kind.CHECKPOINT, error.reason)
                what = ""
        if lines is None:
            if name == RECOVERY_POINTS:
                self._no_recovery_points = what
            return
        for number, fields in enumerate(lines):
            try:
                topic, partition, offset = fields
                key = topic, int(partition)
                if int(offset) < 0 or key in found:
                    raise ValueError
            except ValueError:
                text = " ".join(fields)
                yield Finding(path, Kind.CHECKPOINT, f"line {number + 3} is no entry, or the second one: {text}")
            else:
                found[key] = int(offset)

    def logs(self, image: MetadataImage | None) -> Iterator[Finding]:
        """Check the partitions. Raises OSError."""
        for (topic, partition), path in self.partitions.items():
            yield from self._log(topic, partition, path, image)

    def _log(self, topic: str, partition: int, path: str, image: MetadataImage | None) -> Iterator[Finding]:
        key = topic, partition
        options = LogOptions(
            # The metadata log is recovered at each start, so a clean stop does not always complete its indexes.
            clean=self.clean and topic != METADATA_TOPIC,
            deep=self.deep,
            log_start_offset=self.offsets[LOG_START_OFFSETS].get(key, 0),
        )
        check = LogCheck(path, options, self.progress)
        yield from check.findings()
        self.extents[key] = Extent(path, check.start_offset, check.end_offset)
        for name, what in CHECKPOINTS.items():
            offset = self.offsets[name].get(key, 0)
            if name == RECOVERY_POINTS and options.clean and offset != check.end_offset:
                text = f"the recovery point of {topic}-{partition} is not the end of its log, {check.end_offset}"
                if self._no_recovery_points is not None:
                    text, self._no_recovery_points = self._no_recovery_points, ""
                lost = (
                    offset > check.end_offset and not check.is_broken
                )  # a clean stop flushes all records to the disk first
                if text:
                    severity = Severity.LOSS if lost else Severity.DAMAGE
                    yield Finding(f"{self.path}/{name}", Kind.CHECKPOINT, text, severity, offset=offset)
            elif offset > check.end_offset:
                text = f"the {what} of {topic}-{partition} is beyond the end of its log, {check.end_offset}"
                yield Finding(f"{self.path}/{name}", Kind.CHECKPOINT, text, offset=offset)
        yield from self._topic_id(topic, path, image)

    def _topic_id(self, topic: str, path: str, image: MetadataImage | None) -> Iterator[Finding]:
        metadata_path = f"{path}/{PARTITION_METADATA}"
        topic_id = read_topic_id(LOCAL, path)
        if not LOCAL.exists(metadata_path):
            yield Finding(metadata_path, Kind.TOPIC_ID, "the file is missing")
        elif topic_id is None or not LOCAL.read_file(metadata_path).startswith(b"version: 0\ntopic_id: "):
            yield Finding(metadata_path, Kind.TOPIC_ID, "it does not consist of a version and a topic id")
        if image is None or topic == METADATA_TOPIC:
            return
        known = image.topic(topic)
        if known is None:
            what = "the metadata has no such topic: a start is refused, unless the topic was deleted"
            yield Finding(path, Kind.STRAY, what)
        elif topic_id not in (None, known.topic_id):
            assert topic_id is not None
            what = f"the topic id is {id_text(topic_id)}, and {id_text(known.topic_id)} in the metadata"
            yield Finding(metadata_path, Kind.TOPIC_ID, what)

    def unknown(self, image: MetadataImage) -> Iterator[Finding]:
        """Yield checkpoint entries, after a clean stop, for partitions that exist neither here nor in the metadata."""
        for name, offsets in self.offsets.items() if self.clean else ():
            for topic, partition in offsets.keys() - self.partitions.keys():
                known = image.topic(topic)
                if known is None or partition not in known.partitions:
                    what = f"there is no partition {topic}-{partition}"
                    yield Finding(f"{self.path}/{name}", Kind.CHECKPOINT, what)

    def missing(self, image: MetadataImage, here: set[TopicPartition]) -> Iterator[Finding]:
        """Yield partitions that the metadata assigns to this directory but that no directory has."""
        properties = self.properties
        if properties is None or self.directory_id is None:
            return
        registration = image.brokers.get(properties.node_id)
        if registration is None or self.directory_id not in (registration.log_directories or (self.directory_id,)):
            what = f"node {properties.node_id} with this directory.id is not in the metadata"
            yield Finding(f"{self.path}/{META_PROPERTIES}", Kind.META_PROPERTIES, what)
            return
        for topic in image.topics_by_name.values():
            for number, partition in topic.partitions.items():
                lies_here = partition.directory_of(properties.node_id) == self.directory_id
                if lies_here and (topic.name, number) not in here:
                    path = f"{self.path}/{topic.name}-{number}"
                    what = "the partition is missing, though the metadata assigns it to this directory"
                    yield Finding(path, Kind.MISSING, what, Severity.LOSS)


class DataCheck:
    """Check the log directories of one broker. Consume `findings`; then `directories` and `image` are complete.

    `deep`: also decode the records. The check only reads and takes no lock, so no broker may write meanwhile.
    `progress` is called with the number of bytes of segments read since its last call.
    """

    def __init__(self, paths: Sequence[str], *, deep: bool = False, progress: Progress = lambda size: None) -> None:
        self.directories = [DirectoryCheck(path.rstrip("/") or "/", deep, progress) for path in paths]
        #: The image that the metadata log gives; None if there is no such log or it cannot be read completely.
        self.image: MetadataImage | None = None

    @property
    def logs_done(self) -> int:
        """Return the number of partitions that were checked so far."""
        return sum(len(directory.extents) for directory in self.directories)

    def findings(self) -> Iterator[Finding]:
        """Yield all findings. Raises OSError if a file cannot be read."""
        for directory in self.directories:
            yield from directory.own_files()
        yield from self._of_others()
        for directory in self.directories:
            if (METADATA_TOPIC, 0) in directory.partitions:
                metadata = MetadataCheck(f"{directory.path}/{METADATA_LOG}")
                yield from metadata.run()
                self.image = metadata.image or self.image
        for directory in self.directories:
            yield from directory.logs(self.image)
        here: dict[TopicPartition, str] = {}
        for directory in self.directories:
            for key, path in directory.partitions.items():
                if key in here:
                    yield Finding(path, Kind.TWIN, f"the partition exists twice, also as {here[key]}")
                here[key] = path
        if self.image is not None:
            for directory in self.directories:
                yield from directory.unknown(self.image)
                yield from directory.missing(self.image, set(here))
            yield from self._not_given(self.image)
        elif not any((METADATA_TOPIC, 0) in directory.partitions for directory in self.directories):
            what = f"{METADATA_LOG} is in none of the directories given: nothing was compared with the metadata"
            yield Finding(self.directories[0].path, Kind.NOT_GIVEN, what, Severity.NOTE)

    def _not_given(self, image: MetadataImage) -> Iterator[Finding]:
        """Yield the directories to which the metadata assigns partitions and that this check was not given."""
        given = {directory.directory_id for directory in self.directories}
        node_ids = {each.properties.node_id: each.path for each in self.directories if each.properties is not None}
        found = Counter(
            (path, partition.directory_of(node_id))
            for node_id, path in node_ids.items()
            for topic in image.topics_by_name.values()
            for partition in topic.partitions.values()
        )
        for (path, directory_id), number in sorted(found.items()):
            if directory_id not in given and not is_reserved_directory(directory_id):
                partitions = "1 partition" if number == 1 else f"{number} partitions"
                what = f"the log directory {id_text(directory_id)} was not given; it holds {partitions}"
                yield Finding(path, Kind.NOT_GIVEN, what, Severity.NOTE)

    def _of_others(self) -> Iterator[Finding]:
        """Yield directories of another broker or cluster than the first directory."""
        known = [(each, each.properties) for each in self.directories if each.properties is not None]
        for directory, properties in known[1:]:
            first = known[0][1]
            if (properties.cluster_id, properties.node_id) != (first.cluster_id, first.node_id):
                what = f"node {properties.node_id} of cluster {properties.cluster_id}, unlike {known[0][0].path}"
                yield Finding(f"{directory.path}/{META_PROPERTIES}", Kind.META_PROPERTIES, what)


def check_directory(path: str, *, deep: bool = False) -> Iterator[Finding]:
    """Yield the findings of one log directory; see `DataCheck`."""
    return DataCheck([path], deep=deep).findings()
