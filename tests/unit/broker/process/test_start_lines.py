"""Lines of a start that other people's programs wait for."""

from __future__ import annotations

import re

import pytest

from broker.process.start_lines import start_lines


@pytest.mark.parametrize(
    "awaited",
    [
        r".*Transitioning from RECOVERY to RUNNING.*",
        r".*\[KafkaServer id=\d+\] started.*",
        r".*Kafka Server started.*",
        r"\[KafkaRaftServer nodeId=7\] Kafka Server started",
        r"\[Kafka ?Server (id=)?7\],? started",
        r"Replayed UserScramCredentialRecord creating new entry for admin",
    ],
)
def test_each_line_that_is_waited_for_is_told(awaited: str) -> None:
    """By Testcontainers' modules and kafka-python's tests, in their own expressions."""
    assert [line for line in start_lines(7, {"admin", "other"}) if re.search(awaited, line)]


def test_thousands_of_users_are_not_all_told() -> None:
    """The first ten by name."""
    lines = list(start_lines(1, {f"user-{number:04}" for number in range(5000)}))

    assert len(lines) == 13
    assert lines[0].endswith("user-0000")
