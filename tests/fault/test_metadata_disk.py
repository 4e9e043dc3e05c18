"""The metadata directory of a controller, alone or with a broker, fails or cannot be written: the node ends."""

from __future__ import annotations

import contextlib
import re
import resource
from pathlib import Path

import pytest

from metadata.image import ResourceType
from protocol.error_codes import ErrorCode
from protocol.messages.create_topics import CREATE_TOPICS, CreatableTopic
from protocol.messages.incremental_alter_configs import (
    INCREMENTAL_ALTER_CONFIGS,
    AlterableConfig,
    AlterConfigsResource,
)
from tests.integration.controlling.combined_broker import CombinedBroker
from tests.integration.controlling.own_controller import OwnController
from tests.support.brokers import HOST, OurBroker
from tests.support.launch import obey_permissions, run_broker
from tests.support.ports import free_port
from tests.support.wire import Closed, WireClient

#: So many records make the metadata log longer than the node's output, which the limit of files must not cut off.
MANY = 100


def create(broker: CombinedBroker, name: str, partitions: int = 1) -> int:
    """Return the error of the creation of a topic."""
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    with WireClient(HOST, broker.port) as client:
        return int(client.call(CREATE_TOPICS, 7, topics=[topic], timeout_ms=5_000).topics[0].error_code)


def set_rates(controller: OwnController, brokers: range) -> list[int]:
    """Record a setting of brokers; return the errors."""
    rate = AlterableConfig(name="leader.replication.throttled.rate", config_operation=0, value="1000")
    resources = [
        AlterConfigsResource(resource_type=ResourceType.BROKER, resource_name=str(each), configs=[rate])
        for each in brokers
    ]
    with WireClient(HOST, controller.port) as client:
        answer = client.call(INCREMENTAL_ALTER_CONFIGS, 1, resources=resources, validate_only=False)
    return [each.error_code for each in answer.responses]


def fail(node: OurBroker, metadata: Path) -> None:
    """Let the next append to the metadata log fail."""
    (log,) = metadata.glob("__cluster_metadata-0/*.log")
    most = log.stat().st_size
    resource.prlimit(node.pid, resource.RLIMIT_FSIZE, (most, most))


def check_end(node: OurBroker, metadata: Path) -> None:
    """Check that the node ends, and says once why."""
    assert node.wait() == 1
    lines = [line for line in node.output.splitlines() if " INFO " not in line]
    assert len(lines) == 2, node.output
    assert re.search(rf" FATAL .*Log directory {metadata} is offline: .*File too large", lines[0])
    assert lines[1].endswith(" The broker shuts down: the directory of the metadata log is offline")


def test_a_controller_ends_with_its_directory(tmp_path: Path) -> None:
    with OwnController(tmp_path / "100") as controller:
        assert set(set_rates(controller, range(MANY))) == {ErrorCode.NONE}
        fail(controller, controller.log_dir)
        with contextlib.suppress(Closed, OSError):
            assert set_rates(controller, range(MANY, MANY + 1)) != [ErrorCode.NONE]
        check_end(controller, controller.log_dir)
        controller.start()
        assert set_rates(controller, range(MANY, MANY + 1)) == [ErrorCode.NONE]


def test_the_node_ends_with_its_metadata_directory(tmp_path: Path) -> None:
    """As Apache Kafka's does. The client gets no success, and the next start has all that was answered."""
    metadata = tmp_path / "metadata"
    keys = {"metadata.log.dir": str(metadata), "log.index.size.max.bytes": "4096"}
    with CombinedBroker(tmp_path / "1", keys) as broker:
        assert create(broker, "before", MANY) == ErrorCode.NONE
        fail(broker, metadata)
        with contextlib.suppress(Closed, OSError):
            assert create(broker, "refused") != ErrorCode.NONE
        check_end(broker, metadata)
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
