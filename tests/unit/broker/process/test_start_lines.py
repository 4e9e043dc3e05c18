"""Log lines of a start that other programs wait for."""

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
def test_lines_match_the_patterns_of_other_programs(awaited: str) -> None:
    """The regular expressions of Testcontainers' modules and kafka-python's tests."""
    assert [line for line in start_lines(7, {"admin", "other"}) if re.search(awaited, line)]


def test_list_of_users_is_cut_to_ten() -> None:
    lines = list(start_lines(1, {f"user-{number:04}" for number in range(5000)}))

    assert len(lines) == 13
    assert lines[0].endswith("user-0000")
