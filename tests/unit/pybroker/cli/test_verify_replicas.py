"""`pybroker verify-replicas` while brokers start and leaders change."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from protocol.records.builder import BatchBuilder
from pybroker.cli import verify_replicas
from pybroker.cli.client.errors import CommandError
from pybroker.cli.client.session import FoundOffsets, Place
from pybroker.cli.verify_replicas import _offsets, _Verification, command_line

PLACE = ("t", 0)


@pytest.fixture(autouse=True)
def _short_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify_replicas, "_PAUSE_S", 0.001)


class Brokers:
    """Two replicas with one batch of a record; the second broker does not answer at first."""

    def __init__(self, failures: int) -> None:
        self._failures = failures

    def send(self, request: Any, broker_id: int) -> Any:
        if broker_id == 2 and self._failures:
            self._failures -= 1
            raise CommandError("NodeNotReadyError 2")
        builder = BatchBuilder()
        builder.extend(0, [(None, b"value")])
        found = SimpleNamespace(partition_index=0, error_code=0, records=builder.build(), high_watermark=1)
        return SimpleNamespace(responses=[SimpleNamespace(topic="t", partitions=[found])])


def verify(failures: int, *, end: int, timeout_s: float) -> None:
    brokers: Any = Brokers(failures)
    _Verification(brokers, command_line().parse_args([]), {PLACE: [1, 2]}, {PLACE: 0}).run({PLACE: end}, timeout_s)


def test_broker_that_starts_is_asked_again(capsys: pytest.CaptureFixture[str]) -> None:
    verify(3, end=1, timeout_s=30)
    assert "max lag is 0 for partition t-0 at offset 1 among 1 partitions" in capsys.readouterr().out


def test_broker_that_never_answers_is_named() -> None:
    with pytest.raises(CommandError, match="t-0 at offset 0: broker 2 does not answer: NodeNotReadyError 2"):
        verify(10**9, end=1, timeout_s=0.05)


def looked_up(*codes: int) -> dict[Place, int]:
    """Look up the offset of PLACE: these errors come first."""
    left = list(codes)

    def look_up(_: Iterable[Place]) -> FoundOffsets:
        if left:
            return FoundOffsets({}, {}, {PLACE: CommandError("no", left.pop(0))})
        return FoundOffsets({PLACE: 5}, {}, {})

    session: Any = SimpleNamespace(timeout_s=30)
    return _offsets(session, look_up, [PLACE])


def test_offsets_are_looked_up_again_while_leaders_change() -> None:
    assert looked_up(KafkaError.FENCED_LEADER_EPOCH, KafkaError.NOT_LEADER_FOR_PARTITION) == {PLACE: 5}
    with pytest.raises(CommandError):
        looked_up(KafkaError.TOPIC_AUTHORIZATION_FAILED)
