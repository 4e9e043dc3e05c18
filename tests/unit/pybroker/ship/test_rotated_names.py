"""Which names beside a log are those of its rotated files."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.ship.rotated_names import is_compressed_name, is_rotated_name


@pytest.mark.parametrize(
    ("log", "name"),
    [
        *(("app", "app.1"), ("app.log", "app.log.0"), ("app.log", "app.log.12")),
        *(("app", "app-20260101"), ("app.log", "app.log-20260101"), ("app.log", "app.log-2026010112")),  # dateext
        *(("app.log", "app.log-20260101-120000"), ("app.log", "app.log-1767225600"), ("app.log", "app.log-20260101.1")),
        *(("app.log", "app-20260101.log"), ("app.log", "app.1.log")),  # logrotate's extension
        *(("app.log", "app.log.2026-01-01"), ("app.log", "app.log.2026-01-01_10")),  # Python, Tomcat
        *(("app.log", "app-2026-01-01-1.log"), ("app.log", "app.2026-01-01.log")),  # Log4j, Logback
        ("app.log", "app-2026-01-01T10-00-00.123.log"),  # lumberjack
        *(("app.log", "app.log.old"), ("app.log", "app.log~"), ("app.log", "app.log.2026-01")),
    ],
)
def test_rotated_file_is_recognised(log: str, name: str) -> None:
    assert is_rotated_name(Path("/logs") / log, name)


@pytest.mark.parametrize(
    ("log", "name"),
    [
        *(("app", "app"), ("app", "app.err"), ("app", "app-audit.json"), ("app", "app.log"), ("app", "app_audit")),
        *(("app", "app-error-20260101"), ("app", "app.log.1"), ("app", "app.log-20260101"), ("app", "app.err.1")),
        *(("app", "application.1"), ("app", "app-2"), ("worker.log", "worker-1.log"), ("worker.log", "worker-a.log")),
        *(
            ("app.log", "app-audit.log"),
            ("app.log", "app.log.json"),
            ("app.log", "app.log.1.gz"),
            ("app.log", "my-app.log"),
        ),
        *(("app.log", "app.log-20261399"), ("app.log", "app.log.1.1"), ("a.b", "axb.1"), ("app", "app.1\n")),
    ],
)
def test_file_of_another_program_is_not_recognised(log: str, name: str) -> None:
    assert not is_rotated_name(Path("/logs") / log, name)


def test_compressed_files_are_recognised_apart() -> None:
    log = Path("/logs/app.log")
    names = ["app.log.1.gz", "app.log-20260101.zst", "app.log.2026-01-01.bz2", "app-20260101.log.xz"]
    assert [is_compressed_name(log, name) for name in names] == [True] * 4
    assert not any(is_compressed_name(log, name) for name in ("app.log.gz", "app.err.1.gz", "app.log.1", "gz"))
