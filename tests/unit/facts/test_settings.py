"""Names and defaults of keys where the documents contradict each other or Kafka."""

from __future__ import annotations

from pathlib import Path

import pytest

from config import load
from config.topics import default_log_config


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("log.flush.interval", "log.flush.interval.ms"),
        ("message.log.flush.interval.ms", "log.flush.interval.ms"),
        ("log.retenton.bytes", "log.retention.bytes"),
    ],
)
def test_keys_that_the_documents_misname_log_a_warning(written: str, meant: str, tmp_path: Path) -> None:
    """S16.7, S14.11: the warning has file, line and the intended key. The right names are known."""
    file = tmp_path / "server.properties"
    file.write_text(f"{written}=1000\n")
    (warning,) = load(file).warnings
    assert f"{file}:1" in warning
    assert written in warning
    assert meant in warning
    file.write_text("log.flush.interval.messages=1000\nlog.flush.interval.ms=1000\n")
    config = load(file)
    assert not config.warnings
    assert (config.get_int("log.flush.interval.messages"), config.get_int("log.flush.interval.ms")) == (1000, 1000)


def test_ms_precede_minutes_and_minutes_precede_hours(tmp_path: Path) -> None:
    """S14.5, S14.6, S3.12: also if a file sets all of them."""
    file = tmp_path / "server.properties"
    seen = []
    for text in ("", "log.retention.hours=24", "log.retention.minutes=300", "log.retention.ms=1000"):
        file.write_text(file.read_text() + text + "\n" if file.exists() else text + "\n")
        seen.append(default_log_config(load(file).values).retention_ms)

    assert seen == [168 * 3_600_000, 24 * 3_600_000, 300 * 60_000, 1000]


def test_the_cleaner_is_on_unless_switched_off(tmp_path: Path) -> None:
    """S15.3: the documents' default of false is that of old releases. A file may still set it."""
    file = tmp_path / "server.properties"
    file.write_text("")
    assert load(file).get_bool("log.cleaner.enable") is True
    file.write_text("log.cleaner.enable=false\n")
    assert load(file).get_bool("log.cleaner.enable") is False
