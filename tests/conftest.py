"""How tests are parted among workers (pytest-xdist, --dist loadgroup); no clock for properties.

Tests that need the same costly thing stay in one worker: Spark with its JVM, Apache Kafka, or what a file of
conformance tests sets up. All others go to whoever is free.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes, or the making of one, is for a busy machine to say
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each costly test the group that it belongs to."""
    for item in items:
        if (group := _group(item)) is not None:
            item.add_marker(pytest.mark.xdist_group(group))


def _group(item: pytest.Item) -> str | None:
    if item.get_closest_marker("xdist_group") is not None:
        return None  # it says so itself
    if "spark" in getattr(item, "fixturenames", ()):
        return "spark"
    callspec = getattr(item, "callspec", None)
    if callspec is not None and "kafka" in callspec.params.values():
        return "kafka"
    if "conformance" in item.path.parts:
        return item.path.name
    return None
