"""Fixtures that the tests of this folder share."""

from __future__ import annotations

import pytest

from tests.support.streams_groups import StreamsHarness


@pytest.fixture
def h() -> StreamsHarness:
    """Return a harness without groups."""
    return StreamsHarness()
