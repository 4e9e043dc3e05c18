"""The metadata directory of a node that is broker and controller fails, or cannot be written: the node ends."""

from __future__ import annotations

import contextlib
import re
import resource
from pathlib import Path

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.create_topics import CREATE_TOPICS, CreatableTopic
from tests.integration.controlling.combined_broker import CombinedBroker
from tests.support.brokers import HOST
from tests.support.launch import obey_permissions, run_broker
from tests.support.ports import free_port
from tests.support.wire import Closed, WireClient

#: So many partitions make the metadata log longer than the broker's output, which the limit of files must not cut off.
MANY = 100


def create(broker: CombinedBroker, name: str, partitions: int = 1) -> int:
    """Return the error of the creation of a topic."""
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    with WireClient(HOST, broker.port) as client:
        return int(client.call(CREATE_TOPICS, 7, topics=[topic], timeout_ms=5_000).topics[0].error_code)


def test_the_node_ends_with_its_metadata_directory(tmp_path: Path) -> None:
    """As Apache Kafka's does. The client gets no success, and the next start has all that was answered."""
    metadata = tmp_path / "metadata"
    keys = {"metadata.log.dir": str(metadata), "log.index.size.max.bytes": "4096"}
    with CombinedBroker(tmp_path / "1", keys) as broker:
        assert create(broker, "before", MANY) == ErrorCode.NONE
        (log,) = metadata.glob("__cluster_metadata-0/*.log")
        most = log.stat().st_size
        resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (most, most))
        with contextlib.suppress(Closed, OSError):
            assert create(broker, "refused") != ErrorCode.NONE
        assert broker.wait() == 1
        lines = [line for line in broker.output.splitlines() if " INFO " not in line]
        assert len(lines) == 2, broker.output
        assert re.search(rf" FATAL .*Log directory {metadata} is offline: .*File too large", lines[0])
        assert lines[1].endswith(" The broker shuts down: the directory of the metadata log is offline")
        broker.start()
        assert create(broker, "before") == ErrorCode.TOPIC_ALREADY_EXISTS
        assert create(broker, "after") == ErrorCode.NONE


@pytest.mark.parametrize("mode", [0o555, 0o000])
def test_a_metadata_directory_that_cannot_be_written(tmp_path: Path, mode: int) -> None:
    """The start is refused in one line, and nothing is formatted."""
    metadata, data = tmp_path / "metadata", tmp_path / "data"
    metadata.mkdir()
    metadata.chmod(mode)
    keys = {
        "node.id": "1",
        "process.roles": "broker,controller",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://{HOST}:{free_port()},CONTROLLER://{HOST}:{free_port()}",
        "log.dirs": str(data),
        "metadata.log.dir": str(metadata),
    }
    ended = run_broker(tmp_path / "run", keys, before=obey_permissions)
    metadata.chmod(0o755)
    assert (ended.exit_code, ended.stdout) == (1, "")
    (line,) = [line for line in ended.stderr.splitlines() if " INFO " not in line]
    assert re.match(rf"pybroker: {metadata}: cannot be (used|read): Permission denied\. ", line)
    assert list(metadata.iterdir()) == []
    assert not (data / "meta.properties").exists()
