"""Command lines of commands that connect to a broker."""

from __future__ import annotations

import pytest

from pybroker.cli import topics
from pybroker.cli.client.options import ClientParser


def parser() -> ClientParser:
    made = ClientParser("pybroker things", "Things.")
    for word in ("list", "create"):
        action = made.add_action(word, lambda session, options: None, word)
        action.add_argument("--name")
        action.add_argument("--since")
        action.set_defaults(word=word)
    return made


@pytest.mark.parametrize(
    "line", ["create --name a", "--create --name a", "--name a --create", "--bootstrap-server x:1 --create --name a"]
)
def test_action_may_be_a_word_or_an_option(line: str) -> None:
    """Words are our style, options that of Apache Kafka's tools."""
    options = parser().parse(line.split())
    assert (options.word, options.name) == ("create", "a")


@pytest.mark.parametrize("line", ["list --name a --create", "list --create", "--name a list --create", "--create list"])
def test_two_actions_are_an_error(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`topics describe orders --delete` must not delete topics named "describe" and "orders"."""
    with pytest.raises(SystemExit) as ended:
        parser().parse(line.split())
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith(f"{parser().prog}: list and --create: which of the two?")


def test_name_may_equal_an_action(capsys: pytest.CaptureFixture[str]) -> None:
    """An option and an argument after -- may have the name of an action."""
    assert parser().parse(["--create", "--name", "list"]).name == "list"
    made = ClientParser("pybroker things", "Things.")
    made.add_action("list", lambda session, options: None, "list").add_argument("names", nargs="*")
    assert made.parse(["list", "--", "--list"]).names == ["--list"]
    assert made.parse(["--list", "--", "list"]).names == ["list"]


def test_option_of_an_action_may_equal_another_action() -> None:
    """`cluster unregister-controller --id 9` beside `cluster id`."""
    made = parser()
    made.add_action("id", lambda session, options: None, "id")
    made.add_action("remove", lambda session, options: None, "remove").add_argument("--id")
    assert made.parse(["remove", "--id", "9"]).id == "9"
    assert made.parse(["--id"]).run is not None


def test_values_may_begin_with_a_minus() -> None:
    assert parser().parse(["list", "--since", "-5m"]).since == "-5m"
    assert parser().parse(["list", "--since=-5m", "--name", "-1"]).name == "-1"


def test_common_options_have_defaults() -> None:
    options = parser().parse(["list", "-X", "a=b=c", "-X", "d=", "--timeout", "2.5", "--json"])
    assert options.property == [("a", "b=c"), ("d", "")]
    assert (options.bootstrap_server, options.timeout, options.json) == (None, 2.5, True)


@pytest.mark.parametrize("line", ["list --timeout 0", "list -X a", "list --nam a", "", "paint", "list --timeout x"])
def test_bad_options_are_one_line(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2. Abbreviated options are rejected."""
    with pytest.raises(SystemExit) as ended:
        parser().parse(line.split())
    assert ended.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_missing_action_lists_all_actions(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser().parse([])
    assert (
        capsys.readouterr().err == f"{parser().prog}: an action is missing: list, create (--help shows the options)\n"
    )


def test_errors_escape_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    """The message stays on one line."""
    with pytest.raises(SystemExit):
        parser().parse(["list", "evil\x1b[31m\nname"])
    expected = "pybroker things: unrecognized arguments: evil\\x1b[31m\\nname (--help shows the options)\n"
    assert capsys.readouterr().err == expected


@pytest.mark.parametrize("words", [["--bootstrap-controller", "h:1"], ["--bootstrap-controller=h:1"]])
def test_controllers_address_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Apache Kafka's tools take one."""
    with pytest.raises(SystemExit):
        topics.command_line().parse(["--list", *words])
    assert "name a broker by --bootstrap-server" in capsys.readouterr().err
