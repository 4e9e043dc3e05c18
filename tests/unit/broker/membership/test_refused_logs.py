"""A member without remote storage says why it cannot follow logs whose records are in remote storage alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from broker.membership.replication import warn_of_refused


def test_line_names_the_key_and_the_first_log(caplog: pytest.LogCaptureFixture) -> None:
    refused: list[Any] = [SimpleNamespace(log=SimpleNamespace(name=name)) for name in ("b-0", "a-1")]
    warn_of_refused(refused)
    [record] = caplog.records
    line = record.getMessage()
    assert line.startswith("2 partitions cannot be followed, a-1 first: ")
    assert "remote.log.storage.system.enable=false here" in line


def test_no_line_without_refused_logs(caplog: pytest.LogCaptureFixture) -> None:
    warn_of_refused([])
    assert not caplog.records
