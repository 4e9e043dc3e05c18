"""`pybroker doctor` checks remote storage."""

from __future__ import annotations

from pathlib import Path

import pytest

from config import BrokerConfig, load
from remote.errors import Absent, Denied
from tools.health_checks import Check, Level
from tools.storage_check import remote_storage

SYSTEM = {"remote.log.storage.system.enable": "true"}
CLASS = "remote.log.storage.manager.class.name"
DIRECTORY = {CLASS: "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"}
BUCKET = {CLASS: "pybroker.ObjectStore", "rsm.config.url": "s3://shop/kafka"}


def config_of(*settings: dict[str, str]) -> BrokerConfig:
    return load(overrides={key: value for each in settings for key, value in each.items()}, to_serve=True)


def test_broker_without_remote_storage() -> None:
    assert list(remote_storage(load(overrides=DIRECTORY))) == []


def test_directory(tmp_path: Path) -> None:
    """It is not created by the check."""
    wanted = tmp_path / "remote"
    config = config_of(SYSTEM, DIRECTORY, {"rsm.config.dir": str(wanted)})

    [found] = remote_storage(config)
    assert found.level is Level.OK
    assert found.what.startswith(f"{wanted}, created at the first start; ")
    assert not wanted.exists()
    wanted.touch()
    [found] = remote_storage(config)
    assert (found.level, found.what) == (Level.WRONG, f"{wanted} is not writable")


@pytest.mark.parametrize(
    ("error", "level", "what"),
    [
        (None, Level.OK, "s3://shop answers"),
        (Absent("kafka/_pybroker/probe", "no such object"), Level.OK, "s3://shop answers"),
        (
            Denied("kafka/_pybroker/probe", "forbidden"),
            Level.WRONG,
            "s3://shop cannot be used: kafka/_pybroker/probe: forbidden",
        ),
    ],
)
def test_bucket(error: Exception | None, level: Level, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An object that is absent shows that the bucket answers; credentials that are refused do not."""

    class Store:
        def get(self, key: str) -> bytes:
            assert key == "kafka/_pybroker/probe"
            if error is not None:
                raise error
            return b""

    monkeypatch.setattr("tools.storage_check.store_of", lambda chosen, prefix: Store())

    [found] = remote_storage(config_of(SYSTEM, BUCKET))
    assert isinstance(found, Check)
    assert (found.level, found.what) == (level, what)
