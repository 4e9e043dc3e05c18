"""Fixtures that the tests of this folder share."""

from __future__ import annotations

import pytest

from tests.support.consumer_groups import ConsumerHarness


@pytest.fixture
def h() -> ConsumerHarness:
    """Return a harness without groups."""
    return ConsumerHarness()
