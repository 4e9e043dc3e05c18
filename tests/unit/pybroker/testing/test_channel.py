"""Commands to a broker's process over its pipes."""

from __future__ import annotations

import fcntl
import json
import os
import resource
from collections.abc import Iterator
from typing import Any

import pytest

from pybroker.testing.channel import Channel
from pybroker.testing.errors import BrokerError


class Stage:
    """A channel, and the broker's ends of its pipes."""

    def __init__(self) -> None:
        self.asked, commands = os.pipe()
        answers, self.answering = os.pipe()
        self.channel = Channel(commands, answers, timeout_s=0)
        self.ours = [commands, answers]

    def answer(self, **fields: object) -> None:
        os.write(self.answering, json.dumps(fields).encode() + b"\n")

    def commands(self) -> list[Any]:
        return [json.loads(line) for line in os.read(self.asked, 65_536).splitlines()]

    def hang_up(self) -> None:
        os.close(self.asked)
        os.close(self.answering)


@pytest.fixture
def stage() -> Iterator[Stage]:
    made = Stage()
    yield made
    for descriptor in made.ours:
        os.close(descriptor)


def test_command_is_answered(stage: Stage) -> None:
    """Commands and answers are numbered."""
    stage.answer(id=1, result={"t-0": 5})
    assert stage.channel.ask("roll", topic="t") == {"t-0": 5}
    assert stage.commands() == [{"id": 1, "command": "roll", "arguments": {"topic": "t"}}]
    stage.hang_up()


def test_error_is_raised_with_the_brokers_message(stage: Stage) -> None:
    stage.answer(id=1, error="there is no t")
    with pytest.raises(BrokerError, match="there is no t"):
        stage.channel.ask("roll", topic="t")
    stage.hang_up()


def test_late_answer_is_not_that_of_the_next_command(stage: Stage) -> None:
    """Its number differs."""
    with pytest.raises(BrokerError, match="roll: no answer within 0 s"):
        stage.channel.ask("roll", topic="t")
    stage.answer(id=1, result="late")
    stage.answer(id=2, result="mine")
    assert stage.channel.ask("clear_faults") == "mine"
    stage.hang_up()


def test_dead_broker_is_an_error(stage: Stage) -> None:
    """Before or after the command was sent."""
    os.write(stage.answering, b'{"id": 1, "res')
    os.close(stage.answering)
    with pytest.raises(BrokerError, match="not running"):
        stage.channel.ask("clear_faults")
    os.close(stage.asked)
    with pytest.raises(BrokerError, match="not running"):
        stage.channel.ask("clear_faults")


def test_channel_works_above_1023_descriptors() -> None:
    """Its descriptors may exceed the limit of select()."""
    stage = Stage()
    lowest = resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 64
    assert lowest > 1023
    commands, answers = (fcntl.fcntl(each, fcntl.F_DUPFD, lowest) for each in stage.ours)
    stage.answer(id=1, result="here")
    assert Channel(commands, answers).ask("roll") == "here"
    for descriptor in (*stage.ours, commands, answers):
        os.close(descriptor)
    stage.hang_up()
