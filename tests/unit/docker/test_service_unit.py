"""The unit of systemd: what it promises, read from it."""

from __future__ import annotations

from configparser import ConfigParser
from pathlib import Path

import pytest

from config.keys import BROKER_KEYS

UNIT = Path(__file__).resolve().parents[3] / "docker" / "pybroker.service"


@pytest.fixture
def service() -> dict[str, str]:
    unit = ConfigParser(strict=True, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string(UNIT.read_text())
    return dict(unit["Service"])


def test_it_is_installed_from_its_sources() -> None:
    """What has its name in a registry of packages is somebody else's."""
    assert "/opt/pybroker/bin/pip install '.[" in UNIT.read_text()


def test_systemd_hears_of_the_start_and_of_the_loop(service: dict[str, str]) -> None:
    assert (service["Type"], service["NotifyAccess"]) == ("notify", "main")
    assert int(service["WatchdogSec"]) > 0


def test_stop_has_longer_than_the_broker_gives_itself(service: dict[str, str]) -> None:
    timeout_ms = BROKER_KEYS["pybroker.shutdown.timeout.ms"].default
    assert isinstance(timeout_ms, int)
    assert int(service["TimeoutStopSec"]) * 1000 > timeout_ms


def test_wrong_configuration_is_not_tried_again(service: dict[str, str]) -> None:
    """Exit code 2."""
    assert service["Restart"] == "on-failure"
    assert service["RestartPreventExitStatus"] == "2"


def test_data_is_nobody_elses(service: dict[str, str]) -> None:
    assert (service["StateDirectory"], service["StateDirectoryMode"], service["UMask"]) == ("pybroker", "0700", "0077")
