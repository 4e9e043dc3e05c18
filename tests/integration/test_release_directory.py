"""This tree opens a log directory that a release of pybroker wrote, and continues it.

`python -m tests.integration.test_release_directory` writes the directory of this release into tests/data/logs, and
contents.json with all that clients read from it. Run this once for a release, and commit the result.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.support.brokers import HOST, OurBroker
from tests.support.data_client import DataClient, batch
from tests.support.dump_log import LOGS
from tests.support.eventually import eventually

T0 = 1_700_000_000_000
GROUP = "readers"
PROPERTIES = {
    "offsets.topic.num.partitions": "1",
    "log.cleaner.backoff.ms": "200",
    "log.initial.task.delay.ms": "0",
    "log.retention.check.interval.ms": "1000",
}
_SMALL: dict[str, object] = {"internal.segment.bytes": 1000, "index.interval.bytes": 200, "retention.ms": -1}
TOPICS: dict[str, dict[str, object]] = {
    "codecs": _SMALL,
    "compacted": _SMALL | {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0.01},
    "shortened": _SMALL,
    "expired": _SMALL | {"retention.bytes": 1500},
    "empty": {},
    "name.with_dots-and-dash": _SMALL | {"compression.type": "zstd", "message.timestamp.type": "LogAppendTime"},
}


def releases() -> list[Path]:
    """Return the existing directories, oldest first."""
    return sorted(LOGS.glob("pybroker-*"))


def contents(client: DataClient) -> dict[str, Any]:
    """Return all that is in a broker, as JSON."""
    topics: dict[str, Any] = {}
    for name, partitions in sorted(client.topics().items()):
        if name.startswith("__"):
            continue
        topics[name] = {
            "partitions": partitions,
            "bounds": [list(client.bounds(name, partition)) for partition in range(partitions)],
            "records": [
                [
                    [record.offset, record.timestamp, _text(record.key), _text(record.value)]
                    for record in client.read_all(name, partition)
                ]
                for partition in range(partitions)
            ],
            "config": {key: client.topic_config(name, key) for key in sorted(TOPICS[name]) if "internal" not in key},
        }
    return {"topics": topics, "committed": client.committed(GROUP, "codecs", range(2))}


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("latin-1")


def fill(client: DataClient) -> None:
    """Write some of everything that a release can store."""
    for name, config in TOPICS.items():
        client.create_topic(name, 2 if name == "codecs" else 1, config)
    producer_id = client.new_producer_id()
    for number in range(20):
        values = [b"%d:%d" % (number, each) + bytes(10 * each) for each in range(5)]
        sequence: dict[str, Any] = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 5 * number}
        for partition in range(2):
            client.produce(
                "codecs", batch(*values, codec=number % 5, timestamp=T0 + 1000 * number, **sequence), partition
            )
        for name in ("shortened", "expired", "name.with_dots-and-dash"):
            client.produce(name, batch(*values, timestamp=T0 + 1000 * number))
        for key in (b"a", b"b", b"c%d" % number):
            client.produce("compacted", batch(b"%d" % number, key=key, timestamp=T0 + number))
    client.delete_records("shortened", 0, 42)
    client.commit(GROUP, {("codecs", 0): 37, ("codecs", 1): 100})


def settle(client: DataClient) -> None:
    """Wait for the cleaner, and for retention."""
    eventually(
        lambda: client.bounds("expired")[0] != 0 and len(client.read_all("compacted")) <= 30,
        "a round of the cleaner and of retention",
        interval_s=0.2,
    )


def main() -> None:
    version = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["version"]
    target = LOGS / f"pybroker-{version}"
    with tempfile.TemporaryDirectory() as scratch:
        broker = OurBroker(Path(scratch), PROPERTIES)
        with DataClient(HOST, broker.port) as client:
            fill(client)
            settle(client)
            found = contents(client)
        broker.stop()
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(broker.log_dir, target, ignore=shutil.ignore_patterns(".lock", "*.deleted", "*-delete"))
    (target / "contents.json").write_text(json.dumps(found, indent=1) + "\n")
    print(target)


def served(broker: OurBroker) -> dict[str, Any]:
    with DataClient(HOST, broker.port) as client:
        return contents(client)


@pytest.mark.parametrize("directory", releases(), ids=lambda path: path.name)
def test_directory_of_a_release_is_served(directory: Path, tmp_path: Path) -> None:
    """Topics, configs, records and committed offsets are unchanged, also after a stop and after kill -9."""
    shutil.copytree(directory, tmp_path / "logs", ignore=shutil.ignore_patterns("contents.json"))
    expected = json.loads((directory / "contents.json").read_text())
    broker = OurBroker(tmp_path)
    try:
        assert served(broker) == expected
        with DataClient(HOST, broker.port) as client:
            for name, topic in expected["topics"].items():
                start, end = topic["bounds"][0]
                assert client.produce(name, batch(b"more", key=b"key", timestamp=T0)) == end
                assert client.bounds(name) == (start, end + 1)
            client.commit(GROUP, {("codecs", 0): 38})
            written = contents(client)
        broker.stop()
        broker.start()
        assert served(broker) == written
        broker.kill()
        broker.start()
        assert served(broker) == written
    finally:
        broker.stop()


def test_this_release_has_a_directory() -> None:
    """Each release has a directory, which this module writes when the version is raised."""
    pyproject = Path(__file__).parents[2] / "pyproject.toml"
    version = tomllib.loads(pyproject.read_text())["project"]["version"]
    assert f"pybroker-{version}" in {path.name for path in releases()}


if __name__ == "__main__":
    main()
