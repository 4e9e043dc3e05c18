"""The formatting of log directories: meta.properties, bootstrap.checkpoint, the first snapshot.

An empty directory is formatted at the first start, or before it by `pybroker format`, as by `kafka-storage format
--standalone`: with a random cluster id, an id for each directory, the first feature levels, and this node as the only
voter (kraft.version 1, which Apache Kafka opens whether its configuration names voters or not). directory_checks.py
checks all directories before any is changed. meta.properties is written last, so that a directory that was half
formatted before a crash is formatted again.

From 4.4-IV0 on the feature levels are in the first snapshot of the metadata log, as by Apache Kafka 4.4 (KIP-1170).
The first leader appends them to the log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from controller.directory_checks import METADATA_LOG
from controller.metadata_snapshot import (
    BOOTSTRAP_FILE,
    ZERO_CHECKPOINT,
    Quorum,
    SnapshotId,
    build_snapshot,
    read_snapshot,
    write_snapshot,
)
from metadata.features import (
    BOOTSTRAP_FEATURES,
    KRAFT_VERSION,
    METADATA_VERSION,
    SUPPORTED_FEATURES,
    ZERO_CHECKPOINT_LEVEL,
)
from metadata.framing import MetadataRecord
from metadata.image import Endpoint
from metadata.registration import feature_levels, feature_records
from protocol.error_codes import ProtocolError
from protocol.id_text import id_bytes, id_text
from protocol.messages.data import VotersRecord
from protocol.messages.data.control_records import Endpoint as VoterEndpoint
from protocol.messages.data.control_records import KRaftVersionFeature, VotersVoter
from protocol.records.errors import RecordsError
from storage.checkpoints import MetaProperties, write_meta_properties
from storage.errors import CorruptFile
from storage.fs import FileSystem

DEFAULT_CONTROLLER = Endpoint("CONTROLLER", "localhost", 9093, 0)


class NodeData(msgspec.Struct, frozen=True):
    """The ids of a node's directories; `directory_ids` by path."""

    cluster_id: str
    directory_ids: Mapping[str, bytes]


def make_ready(
    fs: FileSystem,
    directories: Sequence[str],
    metadata_directory: str,
    node_id: int,
    found: Mapping[str, MetaProperties],
    *,
    new_id: Callable[[], bytes],
    metadata_directory_id: bytes | None = None,
    now_ms: int,
    cluster_id: str | None = None,
    controllers: Sequence[Endpoint] = (),
    features: Mapping[str, int] = BOOTSTRAP_FEATURES,
    static_quorum: bool = False,
    users: Sequence[MetadataRecord] = (),
    can_do_without: Callable[[str, OSError], bool] = lambda path, error: False,
) -> NodeData:
    """Format the directories that are not formatted. They exist and are locked. Raises OSError.

    - `cluster_id`: of a new cluster; random if it is not given.
    - `metadata_directory_id`: of the metadata directory; random if it is not given.
    - `controllers`: this node's controller listeners.
    - `static_quorum`: the configuration names the voters, not the log (kraft.version 0).
    - `users`: the credentials of users who can log in from the beginning.
    - `can_do_without(path, error)`: whether to continue without a directory that cannot be written, unless it is the
      metadata directory.
    """
    records = [*feature_records(features), *users]
    in_log = features[METADATA_VERSION] >= ZERO_CHECKPOINT_LEVEL
    bootstrap = build_snapshot(records, now_ms)
    cluster = next((each.cluster_id for each in found.values()), None) or cluster_id or id_text(new_id())
    ids = {}

    def format_one(path: str) -> None:
        properties = found.get(path)
        if properties is None or properties.directory_id is None:
            directory_id = metadata_directory_id if path == metadata_directory else None
            directory_id = directory_id or new_id()
            if properties is None and not in_log:
                fs.replace_file(f"{path}/{BOOTSTRAP_FILE}", bootstrap, sync=True)
            if path == metadata_directory and properties is None and (in_log or not static_quorum):
                quorum = None if static_quorum else quorum_of(node_id, directory_id, controllers)
                _write_first_snapshot(fs, path, records if in_log else (), quorum, now_ms)
            elif properties is None:  # an interrupted format may have left one, which would have precedence
                fs.remove(f"{path}/{METADATA_LOG}/{ZERO_CHECKPOINT}")
            properties = MetaProperties(cluster, node_id, id_text(directory_id))
            write_meta_properties(fs, path, properties)
        assert properties.directory_id is not None
        ids[path] = id_bytes(properties.directory_id)

    # The metadata directory is the last: after a crash in between, the others have the ids of the same cluster.
    for path in sorted(dict.fromkeys([*directories, metadata_directory]), key=lambda path: path == metadata_directory):
        try:
            format_one(path)
        except OSError as error:
            if path == metadata_directory or not can_do_without(path, error):
                raise
    return NodeData(cluster, ids)


def quorum_of(node_id: int, directory_id: bytes, controllers: Sequence[Endpoint]) -> Quorum:
    """Return the quorum with this node as the only voter, which the log names (kraft.version 1)."""
    lowest, highest = SUPPORTED_FEATURES[KRAFT_VERSION]
    voter = VotersVoter(
        voter_id=node_id,
        voter_directory_id=directory_id,
        endpoints=[
            VoterEndpoint(name=each.name, host=each.host, port=each.port)
            for each in controllers or (DEFAULT_CONTROLLER,)
        ],
        kraft_version_feature=KRaftVersionFeature(min_supported_version=lowest, max_supported_version=highest),
    )
    return Quorum(highest, VotersRecord(voters=[voter]))


def _write_first_snapshot(
    fs: FileSystem, path: str, records: Sequence[MetadataRecord], quorum: Quorum | None, now_ms: int
) -> None:
    """Write the snapshot at offset 0: the voter, unless the configuration names it, and the records of formatting."""
    log_path = f"{path}/{METADATA_LOG}"
    fs.make_directory(log_path)
    snapshot = build_snapshot(records, now_ms, last_contained_ms=now_ms, quorum=quorum)
    write_snapshot(fs, log_path, SnapshotId(0, 0), snapshot)


def formatted_with(fs: FileSystem, metadata_directory: str) -> list[MetadataRecord]:
    """Return the records with which a directory was formatted.

    They are in the first snapshot of the metadata log (Apache Kafka 4.4, KIP-1170), or in bootstrap.checkpoint. Without
    both they are the defaults. Raises CorruptFile, also if they have no metadata.version, and OSError.
    """
    for path in (f"{metadata_directory}/{METADATA_LOG}/{ZERO_CHECKPOINT}", f"{metadata_directory}/{BOOTSTRAP_FILE}"):
        if not fs.exists(path):
            continue
        try:
            records = [each for each in read_snapshot(fs, path).records if isinstance(each, MetadataRecord)]
        except (ProtocolError, RecordsError) as error:
            raise CorruptFile(path, str(error)) from None
        if METADATA_VERSION in feature_levels(records):
            return records
        if records or path.endswith(BOOTSTRAP_FILE):
            raise CorruptFile(path, f"has no level of {METADATA_VERSION}")
    return feature_records()
