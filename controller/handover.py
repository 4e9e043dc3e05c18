"""Hand the metadata log of the only voter of a quorum over to other voters, while all of them are stopped.

The last leader begins one more leader epoch and writes the new voters into the log (VotersRecord, KIP-853). Then each
new voter gets the whole log. So all of them begin with equal logs, and each majority has every record. The former
voter keeps its log, which no longer names it, so it cannot lead by mistake. It may go on as a broker, which follows the
new controllers.

Each step can be repeated: the new directories get their ids, the log names the voters, the log is copied. Nothing is
removed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from tempfile import TemporaryDirectory

import msgspec

from config import BrokerConfig
from controller.directory_checks import METADATA_LOG, formatted, has_metadata
from controller.handover_log import append_rest, copy_log, open_log, opened_copy
from controller.metadata_log import MetadataLog
from controller.metadata_snapshot import Quorum
from controller.quorum_state import NOBODY, QuorumState, write_quorum_state
from metadata.features import KRAFT_VERSION, SUPPORTED_FEATURES, unsupported_level
from metadata.image import MetadataImage
from protocol.id_text import id_bytes, id_text
from protocol.messages.data import VotersRecord
from protocol.messages.data.control_records import Endpoint, KRaftVersionFeature, VotersVoter
from storage.checkpoints import LOCK, META_PROPERTIES, MetaProperties, write_meta_properties
from storage.errors import DirectoryRefused
from storage.fs import LOCAL
from storage.log.closing import close_logs
from storage.log.directory import LogDirectory, lock_all

_SHOWN = 3


class NewVoter(msgspec.Struct, frozen=True):
    """A voter from now on: its id, the address of its controller listener, and its metadata directory here."""

    node_id: int
    host: str
    port: int
    directory: str


class Outlook(msgspec.Struct):
    """The state of the former voter and of the new ones.

    Attributes:
        problems: reasons against the handover, one line each. Without any it can begin.
        is_named: whether the log names the new voters already: an earlier handover was interrupted.
        kept: the new voters whose directory has a part of the log, which is continued.
    """

    cluster_id: str = ""
    end_offset: int = 0
    epoch: int = 0
    image: MetadataImage = msgspec.field(default_factory=MetadataImage)
    problems: list[str] = msgspec.field(default_factory=list)
    is_named: bool = False
    kept: list[int] = msgspec.field(default_factory=list)


def inspect_handover(config: BrokerConfig, voters: Sequence[NewVoter], now_ms: int) -> Outlook:
    """Check whether the voter of this configuration can hand its log over. Nothing is written, except a copy elsewhere.

    Raises DirectoryRefused, MetadataLogDamaged, the storage's errors and OSError.
    """
    source = config.metadata_log_dir.rstrip("/")
    outlook = Outlook(problems=list(_wrong_voters(config, voters)))
    directories = dict.fromkeys([source, *(each.directory for each in voters)])
    for path in directories:
        if LOCAL.exists(f"{path}/{LOCK}"):
            directory = LogDirectory(path)
            directory.lock()
            directory.unlock()
    own = formatted(LOCAL, [source], config.node_id).get(source)
    if own is None or not has_metadata(LOCAL, source):
        raise DirectoryRefused(source, "has no metadata log. Name the configuration of the present voter")
    outlook.cluster_id = own.cluster_id
    with TemporaryDirectory(prefix="handover-") as folder:
        metadata_log, loader = opened_copy(source, f"{folder}/source", config, now_ms)
        outlook.end_offset, outlook.epoch, outlook.image = metadata_log.end_offset, metadata_log.epoch, loader.image
        outlook.problems += _wrong_log(config, metadata_log, loader.in_transaction, loader.image, voters, outlook)
        for voter in voters:
            if voter.directory != source:
                copy = f"{folder}/{voter.node_id}"
                outlook.problems += _wrong_directory(voter, copy, own.cluster_id, metadata_log, config, now_ms, outlook)
        close_logs([metadata_log.partition_log], now_ms)
    return outlook


def hand_over(
    config: BrokerConfig,
    voters: Sequence[NewVoter],
    listener: str,
    *,
    new_id: Callable[[], bytes],
    now_ms: int,
) -> None:
    """Name the new voters in the log, and give each of them the log. `inspect_handover` has found no problems.

    Raises DirectoryRefused, MetadataLogDamaged, the storage's errors and OSError.
    """
    source = LogDirectory(config.metadata_log_dir.rstrip("/"))
    targets = {each.node_id: LogDirectory(each.directory) for each in voters if each.directory != source.path}
    lock_all([source, *targets.values()])
    try:
        own = formatted(LOCAL, [source.path], config.node_id)[source.path]
        ids = {voter.node_id: _directory_id(voter, own, source.path, new_id) for voter in voters}
        metadata_log, _ = open_log(source, config, now_ms)
        wanted = new_quorum(voters, ids, listener)
        if metadata_log.quorum.control_records() != wanted.control_records():
            if metadata_log.voters != (config.node_id,):
                reason = "names voters that have other directories. Restore those of the first handover"
                raise DirectoryRefused(source.path, reason)
            metadata_log.become_leader(config.node_id, now_ms)
            metadata_log.name_voters(wanted, now_ms)
        partition_log = metadata_log.partition_log
        close_logs([partition_log], now_ms)
        for directory in targets.values():
            if has_metadata(LOCAL, directory.path):
                append_rest(source, directory, config, now_ms)
            else:
                copy_log(source.path, directory.path)
            state = QuorumState(1, NOBODY, metadata_log.epoch)
            write_quorum_state(LOCAL, f"{directory.path}/{METADATA_LOG}", state)
            directory.mark_used()
    finally:
        for directory in (source, *targets.values()):
            directory.unlock()


def new_quorum(voters: Sequence[NewVoter], directory_ids: dict[int, bytes], listener: str) -> Quorum:
    """Return the quorum of these voters; `directory_ids` by their node ids."""
    lowest, highest = SUPPORTED_FEATURES[KRAFT_VERSION]
    named = [
        VotersVoter(
            voter_id=each.node_id,
            voter_directory_id=directory_ids[each.node_id],
            endpoints=[Endpoint(name=listener, host=each.host, port=each.port)],
            kraft_version_feature=KRaftVersionFeature(min_supported_version=lowest, max_supported_version=highest),
        )
        for each in sorted(voters, key=lambda each: each.node_id)
    ]
    return Quorum(highest, VotersRecord(voters=named))


def _directory_id(voter: NewVoter, own: MetaProperties, source: str, new_id: Callable[[], bytes]) -> bytes:
    """Return the id of a voter's directory, which gets meta.properties if it has none."""
    found = (
        own if voter.directory == source else formatted(LOCAL, [voter.directory], voter.node_id).get(voter.directory)
    )
    if found is None or found.directory_id is None:
        found = MetaProperties(own.cluster_id, voter.node_id, id_text(new_id()))
        write_meta_properties(LOCAL, voter.directory, found)
    assert found.directory_id is not None
    return id_bytes(found.directory_id)


# -- problems --------------------------------------------------------------------------------------------------------


def _wrong_voters(config: BrokerConfig, voters: Sequence[NewVoter]) -> list[str]:
    source, problems = config.metadata_log_dir.rstrip("/"), []
    for of, what in (
        ([each.node_id for each in voters], "id"),
        ([each.directory for each in voters], "directory"),
        ([(each.host, each.port) for each in voters], "address"),
    ):
        if len(set(of)) < len(of):
            problems.append(f"Two voters have the same {what}: each needs its own")
    for each in voters:
        is_own = each.directory == source
        if is_own != (each.node_id == config.node_id):
            problems.append(
                f"Voter {each.node_id} with {each.directory}: node {config.node_id} has the directory {source}, and"
                " keeps both. Give the new voter another id and directory"
            )
        elif is_own and (not config.is_controller or len(voters) == 1):
            problems.append(f"Voter {each.node_id} is the present one: name other voters")
    return problems


def _wrong_log(
    config: BrokerConfig,
    metadata_log: MetadataLog,
    in_transaction: bool,
    image: MetadataImage,
    voters: Sequence[NewVoter],
    outlook: Outlook,
) -> list[str]:
    problems = []
    unsupported = unsupported_level(image.features)
    if unsupported is not None:
        problems.append(f"The cluster is at {unsupported}, which is not supported")
    present = sorted(metadata_log.voters)
    if not metadata_log.quorum.kraft_version:
        problems.append(
            "kraft.version is 0, so the log does not name voters. Start the node, run `pybroker cluster update-features"
            " --feature kraft.version=1`, remove controller.quorum.voters from its configuration, and stop it again"
        )
    elif _named_addresses(metadata_log.quorum) == {each.node_id: (each.host, each.port) for each in voters}:
        outlook.is_named = True
    elif present != [config.node_id]:
        names = ", ".join(map(str, present))
        remedy = (
            "Remove the other voters first (kafka-metadata-quorum remove-controller)"
            if config.node_id in present
            else "Name the configuration of the present voter"
        )
        problems.append(f"The voters are {names}, not node {config.node_id} alone. {remedy}")
    if in_transaction:
        problems.append("A metadata transaction is open. Start the node, which ends it, and stop it again")
    problems += _under_replicated(image)
    return problems


def _named_addresses(quorum: Quorum) -> dict[int, tuple[str, int]]:
    """Return the address of each voter that the log names, by its first listener."""
    if quorum.voters is None:
        return {}
    return {each.voter_id: (each.endpoints[0].host, each.endpoints[0].port) for each in quorum.voters.voters}


def _under_replicated(image: MetadataImage) -> list[str]:
    behind = [
        f"{topic.name}-{index}"
        for topic in image.topics_by_name.values()
        for index, partition in topic.partitions.items()
        if {*partition.isr, *partition.eligible_leader_replicas} != {*partition.replicas}
    ]
    if not behind:
        return []
    more = f" and {len(behind) - _SHOWN} more" if len(behind) > _SHOWN else ""
    return [
        f"Replicas of {', '.join(behind[:_SHOWN])}{more} are not in sync. Start the node and its brokers, wait"
        " until `pybroker topics describe --under-replicated-partitions` prints nothing, and stop the controller first"
    ]


def _wrong_directory(
    voter: NewVoter,
    copy: str,
    cluster_id: str,
    source: MetadataLog,
    config: BrokerConfig,
    now_ms: int,
    outlook: Outlook,
) -> list[str]:
    path = voter.directory
    found = formatted(LOCAL, [path], voter.node_id).get(path)
    names = set(LOCAL.names(path)) if LOCAL.exists(path) else set()
    if found is None:
        if names - {LOCK, "lost+found"}:
            return [f"{path} is not empty, and has no {META_PROPERTIES}. Name another directory"]
        if voter.node_id in outlook.image.brokers:
            return [f"Voter {voter.node_id}: a broker has this id. Name the broker's own directory, or another id"]
        return []
    if found.cluster_id != cluster_id:
        return [f"{path} belongs to cluster {found.cluster_id}, not to {cluster_id}. Name another directory"]
    if not has_metadata(LOCAL, path):
        if LOCAL.exists(f"{path}/{METADATA_LOG}"):
            return [f"{path} was formatted for a quorum of its own. Name an empty directory"]
        return []
    outlook.kept.append(voter.node_id)
    metadata_log, _ = opened_copy(path, copy, config, now_ms)
    target, of = metadata_log.partition_log, source.partition_log
    close_logs([target], now_ms)
    latest = target.leader_epochs.latest
    epoch, end = (-1, 0) if latest is None else of.end_offset_for_epoch(latest)
    if target.log_end_offset < of.log_start_offset:
        return [f"{path} has too little of the metadata log. Start node {voter.node_id} as a broker until it follows"]
    if latest is not None and (epoch != latest or end < target.log_end_offset):
        return [f"The metadata log in {path} diverges from the voter's. Start node {voter.node_id} as a broker first"]
    return []
