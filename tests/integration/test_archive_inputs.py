"""What an archive is made of, as the reader's process tells it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.archive.inputs import DirectoryInput
from pybroker.source.errors import UnknownPartition
from tests.support.logs import append, batch, close, open_log


def test_directory_of_another_topic_is_refused(tmp_path: Path) -> None:
    """A partition's own directory is of one topic, whatever is asked for."""
    log = open_log(tmp_path)
    append(log, batch(b"value"))
    close(log)
    of_one = DirectoryInput(str(tmp_path / "orders-0"), committed=True, active=True)

    assert [(each.topic, each.latest) for each in of_one.ends(["orders"])] == [("orders", 1)]
    with pytest.raises(UnknownPartition, match="holds orders, not clicks"):
        of_one.ends(["clicks"])
