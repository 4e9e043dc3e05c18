"""Inputs of an archive, as the reader process returns them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.archive.inputs import DirectoryInput
from pybroker.source.errors import UnknownPartition
from tests.support.logs import append, batch, close, open_log


def test_directory_of_another_topic_is_refused(tmp_path: Path) -> None:
    """A partition's directory holds one topic, and the reader checks its name."""
    log = open_log(tmp_path)
    append(log, batch(b"value"))
    close(log)
    directory = DirectoryInput(str(tmp_path / "orders-0"), committed=True, active=True)

    assert [(each.topic, each.latest) for each in directory.ends(["orders"])] == [("orders", 1)]
    with pytest.raises(UnknownPartition, match="holds orders, not clicks"):
        directory.ends(["clicks"])
