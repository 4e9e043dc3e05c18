"""Asking a broker's process over its pipes."""

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


def test_a_command_and_its_answer(stage: Stage) -> None:
    """Numbered."""
    stage.answer(id=1, result={"t-0": 5})
    assert stage.channel.ask("roll", topic="t") == {"t-0": 5}
    assert stage.commands() == [{"id": 1, "command": "roll", "arguments": {"topic": "t"}}]
    stage.hang_up()


def test_a_refusal_is_raised(stage: Stage) -> None:
    """In the broker's words."""
    stage.answer(id=1, error="there is no t")
    with pytest.raises(BrokerError, match="there is no t"):
        stage.channel.ask("roll", topic="t")
    stage.hang_up()


def test_an_answer_that_comes_too_late_is_not_the_next_ones(stage: Stage) -> None:
    """It has another number."""
    with pytest.raises(BrokerError, match="roll: no answer within 0 s"):
        stage.channel.ask("roll", topic="t")
    stage.answer(id=1, result="late")
    stage.answer(id=2, result="mine")
    assert stage.channel.ask("clear_faults") == "mine"
    stage.hang_up()


def test_a_broker_that_is_gone_is_told(stage: Stage) -> None:
    """When it is asked, or while it answers."""
    os.write(stage.answering, b'{"id": 1, "res')
    os.close(stage.answering)
    with pytest.raises(BrokerError, match="not running"):
        stage.channel.ask("clear_faults")
    os.close(stage.asked)
    with pytest.raises(BrokerError, match="not running"):
        stage.channel.ask("clear_faults")


def test_a_process_with_many_descriptors() -> None:
    """Those of the channel may be above 1,023."""
    stage = Stage()
    lowest = resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 64
    assert lowest > 1023
    commands, answers = (fcntl.fcntl(each, fcntl.F_DUPFD, lowest) for each in stage.ours)
    stage.answer(id=1, result="here")
    assert Channel(commands, answers).ask("roll") == "here"
    for descriptor in (*stage.ours, commands, answers):
        os.close(descriptor)
    stage.hang_up()
