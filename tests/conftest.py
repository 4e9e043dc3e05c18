"""How tests are parted among workers (pytest-xdist, --dist loadgroup), who has a second try, no clock for properties.

Tests that need the same costly thing stay in one worker: Spark with its JVM, Apache Kafka, or what a file of
conformance tests sets up. All others go to whoever is free.

Where other people's processes take part (clients, Apache Kafka, the kernel's sockets), continuous integration tries
a test that fails once more: a mistake of ours fails twice. Each second try is counted in the closing line ("rerun"),
and its first failure is told above it. Unit and property tests have none, nor has anybody at home.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes, or the making of one, is for a busy machine to say
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


_OF_MANY_PROCESSES = {"conformance", "fault", "integration"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each costly test the group that it belongs to, and each of many processes its second try."""
    for item in items:
        if (group := _group(item)) is not None:
            item.add_marker(pytest.mark.xdist_group(group))
        if "CI" in os.environ and not _OF_MANY_PROCESSES.isdisjoint(item.path.parts):
            item.add_marker(pytest.mark.flaky(reruns=1))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tell what failed at the first try."""
    for report in terminalreporter.stats.get("rerun", []):
        terminalreporter.section(f"{report.nodeid} failed at its first try")
        terminalreporter.line(report.longreprtext)


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
