"""Settings of tiered storage have their effects on a running broker, and wrong ones stop its start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.brokers import HOST
from tests.support.data_client import batch
from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.tiered_brokers import TieredOurs, remote_directory
from tests.support.tiered_client import EARLIEST_LOCAL, METADATA_TOPIC, TieredClient, await_remote

#: One batch fills a segment.
_VALUE = bytes(900)
_TOPIC = {"remote.storage.enable": "true", "internal.segment.bytes": "1000"}
_CLASS = "remote.log.storage.manager.class.name=org.apache.kafka.server.log.remote.storage.LocalTieredStorage"


def test_limits_of_all_topics_change_at_run_time(tmp_path: Path) -> None:
    """How far copies may lag, then how much stays local; both by dynamic settings, and with prefixes of our own.

    Without limits of retention nothing is copied, because the lag is that of local retention.
    """
    properties = {
        "remote.log.storage.manager.impl.prefix": "own.",
        "own.dir": str(tmp_path / "elsewhere"),
        "remote.log.metadata.manager.impl.prefix": "metadata.",
        "metadata.remote.log.metadata.topic.num.partitions": "2",
        "log.retention.ms": "-1",
        "log.remote.copy.lag.ms": "-1",
    }
    with TieredOurs(tmp_path / "broker", properties) as broker, TieredClient(HOST, broker.port) as client:
        remote = remote_directory(tmp_path / "elsewhere")
        client.create_topic("t", configs=_TOPIC)
        for offset in range(4):
            assert client.produce("t", batch(_VALUE)) == offset

        client.set_cluster_config("log.remote.copy.lag.bytes", "2500")
        await_remote(remote, "t", [0])
        client.set_cluster_config("log.remote.copy.lag.bytes", "1")
        await_remote(remote, "t", [0, 1, 2])
        assert client.offsets("t", [EARLIEST_LOCAL])[0].startswith("0 at")

        client.set_cluster_config("log.local.retention.bytes", "1")
        eventually(lambda: client.offsets("t", [EARLIEST_LOCAL])[0].split()[0], equal_to="3")
        assert client.bounds("t") == (0, 4)
        assert client.topics()[METADATA_TOPIC] == 2
        assert "unknown key" not in broker.output


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (["remote.log.storage.manager.class.name=com.example.Own"], "4: remote.log.storage.manager.class.name=com."),
        ([_CLASS, "rsm.config.dir={root}/file"], "5: rsm.config.dir={root}/file: this directory cannot be made"),
        (
            [_CLASS, "rsm.config.dir={root}/remote", "remote.log.metadata.manager.listener.name=INNER"],
            "6: remote.log.metadata.manager.listener.name=INNER: Should be set as a listener name",
        ),
    ],
)
def test_start_ends_with_the_line_of_the_problem(lines: list[str], problem: str, tmp_path: Path) -> None:
    """One line on standard error, without a traceback."""
    (tmp_path / "file").touch()
    path = tmp_path / "server.properties"
    first = [f"listeners=PLAINTEXT://{HOST}:{free_port()}", f"log.dirs={tmp_path}/logs"]
    given = [*first, "remote.log.storage.system.enable=true", *(line.format(root=tmp_path) for line in lines)]
    path.write_text("\n".join(given) + "\n")

    ended = subprocess.run([sys.executable, "-m", "pybroker", str(path)], capture_output=True, text=True, timeout=60)

    assert ended.returncode in (1, 2)
    [line] = [each for each in (ended.stderr + ended.stdout).splitlines() if str(path) in each]
    assert f"{path}:{problem.format(root=tmp_path)}" in line
    assert "Traceback" not in ended.stderr + ended.stdout
