"""Exit codes of commands."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from pybroker.cli.client.command import run
from pybroker.cli.client.errors import CommandError, UsageError
from pybroker.cli.client.options import ClientParser


@pytest.mark.parametrize(
    ("failure", "code", "expected"),
    [
        (None, 0, ""),
        (CommandError("orders: no"), 1, "pybroker things: orders: no\n"),
        (UsageError("which?"), 2, "pybroker things: which?\n"),
        (KafkaException(KafkaError(29)), 1, "pybroker things: Topic authorization failed\n"),
        (KafkaException(KafkaError(31, "(null)")), 1, "pybroker things: Cluster authorization failed\n"),
        (ValueError("an empty name"), 2, "pybroker things: an empty name\n"),
        (
            ModuleNotFoundError("No module named 'kafka'", name="kafka"),
            1,
            "pybroker things: it needs kafka: pip install '.[client]' in the folder of pybroker's sources\n",
        ),
        (KeyboardInterrupt(), 130, "pybroker things: interrupted\n"),
        (CommandError("evil\x1b[31m\nname: no"), 1, "pybroker things: evil\\x1b[31m\\nname: no\n"),
    ],
)
def test_failures_are_one_line(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    failure: BaseException | None,
    code: int,
    expected: str,
) -> None:
    """With the command's name, without a traceback."""
    monkeypatch.setattr("pybroker.cli.client.session.Session", lambda options: None)

    def act(session: object, options: object) -> None:
        if failure is not None:
            raise failure

    parser = ClientParser("pybroker things", "Things.")
    parser.add_action("list", act, "things")
    assert run(parser, ["list"]) == code
    assert capsys.readouterr().err == expected


def test_missing_client_library_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("pybroker.cli.client.command.find_spec", lambda name: None)
    parser = ClientParser("pybroker things", "Things.")
    parser.add_action("list", lambda session, options: None, "things")
    assert run(parser, ["list"]) == 1
    assert "pip install '.[client]'" in capsys.readouterr().err
