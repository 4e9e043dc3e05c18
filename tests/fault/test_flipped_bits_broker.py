"""One flipped bit in a file that the broker needs itself: meta.properties, the metadata log, committed offsets.

The broker starts with the data it can trust and reports the damage with file and position, or it reports the reason in
one line. Everything that the bit did not hit is there, and nothing is invented. A start that would hide topics is
refused.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from protocol.records.batch import HEADER_SIZE, iter_batches
from tests.support.brokers import HOST, OurBroker
from tests.support.data_client import DataClient, batch
from tests.support.scale import scaled

TOPICS = ("one", "two", "three")
GROUPS = {f"group-{number}": 100 + number for number in range(6)}
METADATA, OFFSETS = "__cluster_metadata-0", "__consumer_offsets-0"
SETTINGS = {"offsets.topic.num.partitions": "1"}
#: The fields of a batch's header that its checksum does not cover.
UNCOVERED = 21


@dataclass(frozen=True)
class Original:
    """A directory, and where each group's commit is in the log of offsets: position and size."""

    log_dir: Path
    commits: list[tuple[int, int]]
    clean: bool

    def copy(self, target: Path) -> Path:
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(self.log_dir, target / "logs")
        return target


@pytest.fixture(scope="module", params=["stopped", "killed"])
def original(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Original:
    with OurBroker(tmp_path_factory.mktemp(request.param), SETTINGS) as broker:
        with DataClient(HOST, broker.port) as client:
            for topic in TOPICS:
                client.create_topic(topic)
                client.produce(topic, batch(topic.encode()))
            client.find_coordinator("group-0")
            for group, offset in GROUPS.items():
                client.commit(group, {(TOPICS[0], 0): offset})
        if request.param == "stopped":
            assert broker.stop() == 0
    [log] = broker.log_dir.glob(f"{OFFSETS}/*.log")
    commits = [(position, header.size_bytes) for position, header in iter_batches(log.read_bytes())]
    assert len(commits) == len(GROUPS)
    return Original(broker.log_dir, commits, request.param == "stopped")


def flip(path: Path, position: int, bit: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1 << bit
    path.write_bytes(data)


def started(directory: Path) -> OurBroker | str:
    """Start the broker, or return its message if it does not start."""
    try:
        return OurBroker(directory, SETTINGS)
    except AssertionError:
        output = (directory / "output.txt").read_text()
        last = output.splitlines()[-1]
        assert last.startswith("pybroker: "), output
        assert "Traceback" not in output
        return last


@pytest.mark.parametrize(
    "pattern",
    [
        "meta.properties",
        f"{METADATA}/*.log",
        f"{METADATA}/*index",
        f"{METADATA}/*.checkpoint",
        f"{METADATA}/quorum-state",
        f"{METADATA}/*.snapshot",
    ],
)
def test_flipped_bits_in_ownership_files(pattern: str, original: Original, tmp_path: Path) -> None:
    """S16.9: the cut of the metadata log is reported with its position. Topics that it loses are not hidden."""
    random = Random(pattern)
    for _ in range(scaled(1)):
        directory = original.copy(tmp_path / "copy")
        paths = [path for path in sorted((directory / "logs").glob(pattern)) if path.stat().st_size]
        if not paths:
            return
        path = random.choice(paths)
        place = random.randrange(path.stat().st_size), random.randrange(8)
        print(f"{path.name}: bit {place[1]} of byte {place[0]}")
        flip(path, *place)
        broker = started(directory)
        if isinstance(broker, str):
            assert str(directory / "logs") in broker
            if path.name != "meta.properties":
                assert path.suffix == ".log"
                assert re.search(r"-0: the metadata log .* knows neither this partition nor a deletion of it", broker)
                output = (directory / "output.txt").read_text()
                assert re.search(rf"{re.escape(str(path))}: \d+ bytes from byte \d+ on were cut off.*; kept in", output)
            for topic in TOPICS:
                assert len(list((directory / "logs").glob(f"{topic}-0/*.log"))) == 1
            continue
        try:
            with DataClient(HOST, broker.port) as client:
                assert set(client.topics()) == {*TOPICS, "__consumer_offsets"}
                for topic in TOPICS:
                    [record] = client.read_all(topic)
                    assert record.value == topic.encode()
                for group, offset in GROUPS.items():
                    assert client.committed(group, TOPICS[0]) == [offset]
            assert not list((directory / "logs").glob("*-stray"))
            assert "Traceback" not in broker.output
            assert broker.stop() == 0
        finally:
            broker.kill()


@pytest.mark.parametrize("where", ["records", "header"])
def test_bits_of_committed_offsets(where: str, original: Original, tmp_path: Path) -> None:
    """A commit with a wrong checksum is ignored. After a kill the later commits are cut off too (R4)."""
    random = Random(where)
    for _ in range(scaled(2)):
        directory = original.copy(tmp_path / "copy")
        [path] = (directory / "logs").glob(f"{OFFSETS}/*.log")
        hit = random.randrange(len(original.commits))
        position, size = original.commits[hit]
        position += (
            random.randrange(HEADER_SIZE, size) if where == "records" else random.randrange(UNCOVERED, HEADER_SIZE)
        )
        bit = random.randrange(8)
        print(f"commit {hit}: bit {bit} of byte {position}")
        flip(path, position, bit)
        broker = started(directory)
        assert not isinstance(broker, str)
        try:
            with DataClient(HOST, broker.port) as client:
                found = [client.committed(group, TOPICS[0])[0] for group in GROUPS]
                wanted = [*GROUPS.values()]
                cut = not original.clean or (f"{path}: " in broker.output and "cut off" in broker.output)
                lost = len(wanted) - hit if cut else 1
                assert found == [*wanted[:hit], *[-1] * lost, *wanted[hit + lost :]]
                client.commit("group-0", {(TOPICS[0], 0): 7})
                assert client.committed("group-0", TOPICS[0]) == [7]
            assert re.search(rf"{re.escape(str(path))}: .* byte {original.commits[hit][0]}\b", broker.output)
            assert "Traceback" not in broker.output
            assert broker.stop() == 0
        finally:
            broker.kill()
