"""Properties of the systemd unit, read from the file."""

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
    """A package of that name in a registry belongs to somebody else."""
    assert "/opt/pybroker/bin/pip install '.[" in UNIT.read_text()


def test_systemd_is_notified_of_the_start_and_of_the_loop(service: dict[str, str]) -> None:
    assert (service["Type"], service["NotifyAccess"]) == ("notify", "main")
    assert int(service["WatchdogSec"]) > 0


def test_systemd_waits_longer_than_a_stop_takes(service: dict[str, str]) -> None:
    timeout_ms = BROKER_KEYS["pybroker.shutdown.timeout.ms"].default
    assert isinstance(timeout_ms, int)
    assert int(service["TimeoutStopSec"]) * 1000 > timeout_ms


def test_a_wrong_configuration_is_not_retried(service: dict[str, str]) -> None:
    """The broker exits with code 2."""
    assert service["Restart"] == "on-failure"
    assert service["RestartPreventExitStatus"] == "2"


def test_only_the_service_user_reads_the_data(service: dict[str, str]) -> None:
    assert (service["StateDirectory"], service["StateDirectoryMode"], service["UMask"]) == ("pybroker", "0700", "0077")
