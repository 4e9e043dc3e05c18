"""A broker, its console and `pybroker doctor` say why segments of a tiered topic are still on the disk."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from pybroker.testing import Broker
from tests.support.brokers import HOST
from tests.support.console_visitor import Console
from tests.support.data_client import batch
from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.tiered_client import TieredClient
from tools import doctor

TOPIC = {"remote.storage.enable": "true", "internal.segment.bytes": "1000"}


def lines(file: Path, capsys: pytest.CaptureFixture[str]) -> list[dict[str, str]]:
    """Return what doctor says about local segments."""
    capsys.readouterr()
    assert doctor.main(["--json", str(file)]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return [each for each in found if each["name"].startswith("local segments")]


def test_reasons_reach_console_and_doctor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    metrics = f"http://{HOST}:{free_port()}"
    tier = {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name": "org.apache.kafka.server.log.remote.storage.LocalTieredStorage",
        "rsm.config.dir": str(tmp_path / "remote"),
        "remote.log.manager.task.interval.ms": "100",
        "metrics.listeners": metrics,
    }
    file = tmp_path / "server.properties"

    def answer(query: str) -> dict[str, list[dict[str, object]]]:
        with urllib.request.urlopen(f"{metrics}/tiering?{query}", timeout=60) as response:
            found: dict[str, list[dict[str, object]]] = json.load(response)
            return found

    def first_reason() -> object:
        [log] = answer("topic=clicks&partition=0")["logs"]
        segments = log["segments"]
        assert isinstance(segments, list)
        return segments[0]["reason"]

    with Broker({**tier, "console.listeners": f"http://{HOST}:0"}, directory=tmp_path / "broker") as broker:
        data = broker.data_directory
        port = int(broker.bootstrap_servers.rpartition(":")[2])
        settings = "\n".join(f"{key}={value}" for key, value in tier.items())
        file.write_text(f"{settings}\nlisteners=PLAINTEXT://{HOST}:{port}\nlog.dirs={data}\n")
        broker.create_topic("clicks", config=TOPIC)
        broker.create_topic("plain")
        with TieredClient(HOST, port) as client:
            for _ in range(3):
                client.produce("clicks", batch(bytes(900)))
            eventually(lambda: first_reason() == "local-retention", "a copy")
            client.set_topic_config("clicks", "remote.log.copy.disable", "true")
            for _ in range(2):
                client.produce("clicks", batch(bytes(900)))

        console = Console(broker)
        page = console.page("/storage/0/clicks-0")
        assert "why it is still local" in page
        assert "copied; kept by the local retention of 604800000 ms (" in page
        assert "remote.log.copy.disable=true; retention.* removes it" in page
        assert "active: segment.ms or segment.bytes closes it" in page
        assert "why it is still local" not in console.page("/storage/0/plain-0")
        assert answer("topic=plain") == {"logs": []}
        with pytest.raises(urllib.error.HTTPError, match="400"):
            answer("partition=first")

        found = lines(file, capsys)
        assert [each["level"] for each in found] == ["ok", "ok"]
        assert {each["name"] for each in found} == {"local segments of clicks-0"}
        assert found[0]["what"].startswith("offsets 0 to 1 (2 segments, ")
        assert found[0]["what"].endswith(" UTC")
        assert found[1]["what"].startswith("offsets 2 to 3 (2 segments, ")
        assert "remote.log.copy.disable=true" in found[1]["what"]

    [stopped] = lines(file, capsys)
    assert stopped["name"] == "local segments of clicks-0"
    assert stopped["what"].startswith("offsets up to 1 are copied; 2 closed segments are not (")
