"""Fixtures that the tests of this folder share."""

from __future__ import annotations

import pytest

from tests.support.groups import GroupHarness


@pytest.fixture
def h() -> GroupHarness:
    """Return a harness without groups."""
    return GroupHarness()
