"""Commands and answers as lines of JSON."""

from __future__ import annotations

import json
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from broker.control.channel import Channel
from broker.control.commands import Commands
from broker.control.faults import FaultyDispatcher
from runtime.deferred import Deferred
from runtime.timers import Timers
from tests.support.fake_loop import FakeLoop


class Stage:
    """A channel to a broker; the test decides when its retention ends."""

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.retained: Deferred[None] = Deferred()
        self.channel = Channel(lambda line: self.answers.append(json.loads(line)))
        loop = FakeLoop()
        self.broker: Any = SimpleNamespace(
            timers=Timers(loop, self.channel.clock),
            server=SimpleNamespace(listeners=(), connections=()),
            logs=SimpleNamespace(unopened={}),
            background=SimpleNamespace(retain=lambda: self.retained),
            partitions=SimpleNamespace(of_topic=lambda topic: {}),
        )
        self.broker.dispatcher = self.channel.make_dispatcher({})

    def open(self) -> None:
        self.channel.open(partial(Commands, self.broker), self.broker.dispatcher, self.broker.timers)


@pytest.fixture
def stage() -> Stage:
    made = Stage()
    made.open()
    return made


def line(number: object, command: str, **arguments: object) -> bytes:
    return json.dumps({"id": number, "command": command, "arguments": arguments}).encode() + b"\n"


def test_lines_may_arrive_in_pieces(stage: Stage) -> None:
    """Several at once, or byte by byte. Arguments are optional and empty lines are ignored."""
    stage.channel.feed(line(1, "clear_faults") * 2 + b"\n")
    for octet in b'{"id": "a", "command": "clear_faults"}\n':
        stage.channel.feed(bytes([octet]))
    assert stage.answers == [{"id": number, "result": None} for number in (1, 1, "a")]


def test_answer_comes_when_its_command_is_done(stage: Stage) -> None:
    """A later command may be answered first."""
    stage.channel.feed(line(1, "run_retention") + line(2, "clear_faults"))
    assert [each["id"] for each in stage.answers] == [2]
    stage.retained.resolve(None)
    assert stage.answers[1:] == [{"id": 1, "result": None}]


def test_commands_wait_for_the_start_of_the_broker() -> None:
    stage = Stage()
    stage.channel.feed(line(1, "move_time_on", milliseconds=5))
    assert stage.answers == []
    stage.open()
    assert [each["id"] for each in stage.answers] == [1]


def test_links_are_cut_before_the_node_connects() -> None:
    """The command is carried out again, and answered, at the start. Other lines do not matter."""
    stage = Stage()
    cuts: list[object] = []
    stage.channel.links.cut = lambda *ports: cuts.append(ports)  # type: ignore[method-assign]
    stage.channel.feed(b"roll\n[1]\n{}\n" + line(1, "cut_off", clients=False, sending_to=[7], receiving_from=[8]))
    assert (cuts, stage.answers) == ([([7], [8])], [])
    stage.open()
    assert cuts == [([7], [8])] * 2
    assert stage.answers[-1] == {"id": 1, "result": None}
    stage.channel.feed(line(2, "reconnect"))
    assert cuts[2:] == [([], [])]


@pytest.mark.parametrize(
    ("sent", "number", "why"),
    [
        (b"roll orders\n", None, "not JSON"),
        (b"\xff\n", None, "not JSON"),
        (b"[1]\n", None, "a line is an object"),
        (line(7, "roll", topic="orders"), 7, "there is no orders"),
        (b'{"id": 8}\n', 8, "unknown command None"),
        (b"{" * ((1 << 20) + 1), None, "a line of more than 1048576 bytes"),
    ],
)
def test_bad_commands_are_answered_with_an_error(
    stage: Stage, caplog: pytest.LogCaptureFixture, sent: bytes, number: object, why: str
) -> None:
    """It is the caller's mistake, so the broker logs nothing. Later commands are carried out."""
    stage.channel.feed(sent)
    stage.channel.feed(line(9, "clear_faults"))
    refused, following = stage.answers
    assert refused["id"] == number
    assert why in refused["error"]
    assert following == {"id": 9, "result": None}
    assert caplog.messages == []


def test_failed_command_is_answered_and_logged(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    """Here the broker is at fault."""
    stage.channel.feed(line(1, "run_retention"))
    stage.retained.fail(OSError("the disk is gone"))
    assert stage.answers == [{"id": 1, "error": "the disk is gone"}]
    assert caplog.messages == ["A command failed"]


def test_broker_with_a_channel_has_dispatcher_and_clock(stage: Stage) -> None:
    before_ms = stage.channel.clock.now_ms()
    stage.channel.feed(line(1, "move_time_on", milliseconds=86_400_000))
    assert stage.answers[0]["result"] >= before_ms + 86_400_000
    assert isinstance(stage.broker.dispatcher, FaultyDispatcher)
