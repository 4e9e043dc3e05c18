"""Lines of JSON, in and out."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from broker.control.channel import Channel
from broker.control.faults import FaultyDispatcher
from runtime.deferred import Deferred
from runtime.timers import Timers
from tests.support.fake_loop import FakeLoop


class Stage:
    """A channel to a broker whose retention ends when a test says so."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.retained: Deferred[None] = Deferred()
        self.channel = Channel(lambda line: self.told.append(json.loads(line)))
        loop = FakeLoop()
        self.broker: Any = SimpleNamespace(
            timers=Timers(loop, self.channel.clock),
            logs=SimpleNamespace(unopened={}),
            background=SimpleNamespace(retain=lambda: self.retained),
            partitions=SimpleNamespace(of_topic=lambda topic: {}),
        )
        self.broker.dispatcher = self.channel.make_dispatcher({})

    def open(self) -> None:
        self.channel.open(self.broker, self.broker.dispatcher)


@pytest.fixture
def stage() -> Stage:
    made = Stage()
    made.open()
    return made


def line(number: object, command: str, **arguments: object) -> bytes:
    return json.dumps({"id": number, "command": command, "arguments": arguments}).encode() + b"\n"


def test_lines_in_any_pieces(stage: Stage) -> None:
    """Several at once, and one byte by byte; arguments and empty lines may be left out."""
    stage.channel.feed(line(1, "clear_faults") * 2 + b"\n")
    for octet in b'{"id": "a", "command": "clear_faults"}\n':
        stage.channel.feed(bytes([octet]))
    assert stage.told == [{"id": number, "result": None} for number in (1, 1, "a")]


def test_an_answer_comes_when_its_command_is_carried_out(stage: Stage) -> None:
    """A later one may be answered first."""
    stage.channel.feed(line(1, "run_retention") + line(2, "clear_faults"))
    assert [each["id"] for each in stage.told] == [2]
    stage.retained.resolve(None)
    assert stage.told[1:] == [{"id": 1, "result": None}]


def test_commands_wait_until_the_broker_is_up() -> None:
    """None is lost."""
    stage = Stage()
    stage.channel.feed(line(1, "move_time_on", milliseconds=5))
    assert stage.told == []
    stage.open()
    assert [each["id"] for each in stage.told] == [1]


@pytest.mark.parametrize(
    ("sent", "number", "why"),
    [
        (b"roll orders\n", None, "not JSON"),
        (b"\xff\n", None, "not JSON"),
        (b"[1]\n", None, "a line is an object"),
        (line(7, "roll", topic="orders"), 7, "there is no orders"),
        (b'{"id": 8}\n', 8, "there is no command None"),
        (b"{" * ((1 << 20) + 1), None, "a line of more than 1048576 bytes"),
    ],
)
def test_what_is_wrong_is_the_answer(
    stage: Stage, caplog: pytest.LogCaptureFixture, sent: bytes, number: object, why: str
) -> None:
    """The asker's mistake is nothing for the broker's log; and what follows is carried out."""
    stage.channel.feed(sent)
    stage.channel.feed(line(9, "clear_faults"))
    refused, following = stage.told
    assert refused["id"] == number
    assert why in refused["error"]
    assert following == {"id": 9, "result": None}
    assert caplog.messages == []


def test_a_command_that_fails_is_told_and_logged(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    """It is the broker's mistake then."""
    stage.channel.feed(line(1, "run_retention"))
    stage.retained.fail(OSError("the disk is gone"))
    assert stage.told == [{"id": 1, "error": "the disk is gone"}]
    assert caplog.messages == ["A command failed"]


def test_the_broker_that_it_is_opened_for_has_its_dispatcher(stage: Stage) -> None:
    """And its clock."""
    before_ms = stage.channel.clock.now_ms()
    stage.channel.feed(line(1, "move_time_on", milliseconds=86_400_000))
    assert stage.told[0]["result"] >= before_ms + 86_400_000
    assert isinstance(stage.broker.dispatcher, FaultyDispatcher)
