"""Find the logs of a request that names remote storage: alone, or with a data directory that has the newer segments."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from protocol.id_text import id_text
from pybroker.isolated.remote_files import RemoteFiles
from pybroker.isolated.stored_log import StoredLog
from pybroker.source.errors import UnknownPartition, UnusableOption
from remote.configured import store_for_reading
from remote.errors import SettingError
from remote.stored_copies import StoredPartition, stored_partitions
from storage.checkpoints import read_topic_id
from storage.fs import LOCAL

#: Listings of this process, by URL and options: a listing may take seconds, and every split needs one.
_listed: dict[tuple[object, ...], list[StoredPartition]] = {}


def remote_partitions(remote: Mapping[str, Any], *, again: bool = False) -> list[StoredPartition]:
    """Return the partitions below the URL. `again` lists them again. Raises UnusableOption, RemoteStorageError."""
    options = {str(key): str(value) for key, value in (remote.get("options") or {}).items()}
    key = (remote["url"], *sorted(options.items()))
    if again or key not in _listed:
        parts = urlsplit(remote["url"])
        bucket = "file:///" if parts.scheme == "file" else f"{parts.scheme}://{parts.netloc}"
        try:
            store = store_for_reading({"url": bucket, **options})
        except SettingError as error:
            raise UnusableOption(str(error)) from None
        _listed[key] = stored_partitions(store, unquote(parts.path) if parts.scheme == "file" else parts.path)
    return _listed[key]


def remote_logs(
    remote: Mapping[str, Any], topics: list[str] | None, assigned: Collection[tuple[str, int]] | None
) -> Iterator[tuple[StoredLog, str]]:
    """Yield the logs that are in remote storage alone, each with the id of its topic.

    They are those of `topics`, or the `assigned` partitions, or all but those of internal topics.
    """
    if assigned is not None:
        topics = sorted({topic for topic, _ in assigned})
    chosen = [
        each
        for each in remote_partitions(remote, again=True)
        if (each.partition.topic in topics if topics is not None else not each.partition.topic.startswith("__"))
    ]
    if missing := sorted(set(topics or ()) - {each.partition.topic for each in chosen}):
        raise UnknownPartition(f"{remote['url']} has no segments of {', '.join(missing)}")
    if not chosen:
        raise UnknownPartition(f"{remote['url']} has no segments of topics")
    _check_unique(remote["url"], chosen)
    if missing_partitions := sorted(set(assigned or ()) - {each.partition[1:] for each in chosen}):
        names = ", ".join(f"{topic}-{partition}" for topic, partition in missing_partitions)
        raise UnknownPartition(f"{remote['url']} has no segments of {names}")
    for each in chosen:
        if assigned is None or each.partition[1:] in assigned:
            yield remote_log(remote["url"], each), id_text(each.partition.topic_id)


def remote_log(url: str, stored: StoredPartition) -> StoredLog:
    """Return the log of a partition that is in remote storage alone; its directory is a name for messages."""
    parts = urlsplit(url)
    place = stored.partition
    folder = f"{parts.scheme}/{parts.netloc}{parts.path.rstrip('/')}/{place.topic}-{place.partition}"
    return StoredLog(f"/{folder}", RemoteFiles(stored))


def log_of(directory: str, remote: Mapping[str, Any] | None) -> StoredLog:
    """Return the log of a directory, with the older segments that remote storage has."""
    if remote is None:
        return StoredLog(directory)
    topic_id = read_topic_id(LOCAL, directory)
    plain = StoredLog(directory)
    place = (topic_id, plain.topic, plain.partition)
    found = next((each for each in remote_partitions(remote) if each.partition == place), None)
    return plain if found is None else StoredLog(directory, RemoteFiles(found, directory))


def split_log(wanted: Mapping[str, Any]) -> StoredLog:
    """Return the log of a split of `plan`."""
    remote = wanted["remote"]
    if "topic_id" not in wanted:
        return log_of(wanted["directory"], remote)
    place = (wanted["topic"], wanted["partition"])
    found = [
        each
        for each in remote_partitions(remote)
        if each.partition[1:] == place and id_text(each.partition.topic_id) == wanted["topic_id"]
    ]
    if not found:
        raise UnknownPartition(f"{remote['url']} has no segments of {place[0]}-{place[1]}")
    return remote_log(remote["url"], found[0])


def _check_unique(url: str, chosen: list[StoredPartition]) -> None:
    ids: dict[str, bytes] = {}
    for partition in (each.partition for each in chosen):
        if ids.setdefault(partition.topic, partition.topic_id) != partition.topic_id:
            both = (ids[partition.topic], partition.topic_id)
            names = " and ".join(f"{partition.topic}-{id_text(each)}" for each in both)
            raise UnusableOption(f"{url} has segments of two topics of one name: {names}; read the folder of one")
