"""A broker with a share group, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.share_broker import SETTINGS, ShareBroker, ShareMemberClient


@pytest.fixture
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ShareBroker]:
    """Run a broker with the topic "t"; the marker `broker` of a file names another class or other settings."""
    marker = request.node.get_closest_marker("broker")
    kind, settings = marker.args if marker else (ShareBroker, SETTINGS)
    made: ShareBroker = kind(tmp_path, settings)
    made.create("t")
    yield made
    made.close()


@pytest.fixture
def member(broker: ShareBroker) -> ShareMemberClient:
    """Return a member of the group, which starts at the first record."""
    client = broker.member()
    client.configure(share_auto_offset_reset="earliest")
    return client.enter()
