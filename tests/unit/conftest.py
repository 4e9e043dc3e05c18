"""Unit tests share a process: descriptors that a file of tests leaves open must not add up."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

import pytest

_MANY_DESCRIPTORS = 256


@pytest.fixture(scope="module", autouse=True)
def _closed_descriptors() -> Iterator[None]:
    """Close the logs that the tests of a file left open, as after a crash: with a large heap Python collects seldom."""
    yield
    if len(os.listdir("/dev/fd")) > _MANY_DESCRIPTORS:
        gc.collect()
