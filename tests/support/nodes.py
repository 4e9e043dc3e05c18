"""A node's data in real directories: starts, crashes, and the records of a controller."""

from __future__ import annotations

from pathlib import Path

from broker.startup.node import Node, open_node
from config import BrokerConfig, load
from controller.directory_checks import METADATA_LOG
from controller.metadata_snapshot import write_snapshot
from metadata.framing import MetadataRecord, new_record
from metadata.image import MetadataImage
from metadata.replay import replay_all
from metadata.replica_placement import new_partition
from protocol.messages.cluster_metadata import TopicRecord
from storage.fs import LOCAL

TOPIC_ID = b"topic-id-of-16-b"


def config(directory: Path, **overrides: str) -> BrokerConfig:
    keys = {"node.id": "1", "listeners": "PLAINTEXT://127.0.0.1:9092", "log.dirs": str(directory)}
    return load(None, overrides=keys | {key.replace("_", "."): value for key, value in overrides.items()})


def start(directory: Path, now_ms: int = 1000, **overrides: str) -> Node:
    return open_node(config(directory, **overrides), now_ms)


def write(node: Node, *records: MetadataRecord) -> None:
    """Write records as the controller does."""
    node.metadata_log.append(records, 2000)
    replay_all(node.image, records)


def an_orders_topic(node: Node) -> None:
    """Create a topic with one partition, and its log."""
    topic = new_record(30, TopicRecord, name="orders", topic_id=TOPIC_ID)
    write(node, topic, new_partition(node.image, TOPIC_ID, 0, [1], manual=False))
    node.logs.create("orders", 0, TOPIC_ID, config(Path("/x")).log_config(), 2000)


def take_snapshot(node: Node) -> str:
    """Write a snapshot; return its name."""
    prepared = node.metadata_log.prepare_snapshot(node.image, 2500)
    assert prepared is not None
    write_snapshot(LOCAL, node.metadata_log.path, *prepared)
    return prepared[0].file_name


def crash(node: Node) -> None:
    """End as a killed process does: only the locks are released."""
    node.logs.unlock()


def state(image: MetadataImage) -> dict[str, object]:
    """Return the state that a restart must keep."""
    return {"features": image.features, "topics": sorted(image.topics_by_name), "configs": image.configs}


def contents(root: Path) -> dict[str, bytes | None]:
    """Return the content of each file below `root`, and None for directories.

    The indexes of the metadata log are left out: reading that log rebuilds them.
    """
    return {
        str(path.relative_to(root)): None if path.is_dir() else path.read_bytes()
        for path in sorted(root.rglob("*"))
        if not (path.parent.name == METADATA_LOG and path.suffix in (".index", ".timeindex"))
    }
