"""Fixtures that the tests of this folder share."""

from __future__ import annotations

import pytest

from tests.support.transactions import TransactionHarness


@pytest.fixture
def h() -> TransactionHarness:
    """Return a harness with a producer."""
    harness = TransactionHarness()
    harness.init()
    return harness
