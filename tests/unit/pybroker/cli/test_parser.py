"""The order of words on command lines, for all commands."""

from __future__ import annotations

from argparse import ArgumentParser
from importlib import import_module

import pytest

from pybroker.cli.commands import modules
from pybroker.cli.parser import AnyOrderParser, actions_of

#: Required options of commands, besides names.
NEEDED = {
    "groups delete-offsets": "--topic orders",
    "groups reset-offsets": "--to-earliest",
    "quotas set": "--user ann",
    "topics alter": "--partitions 2",
}
NAMES = ["a=1", "b=2", "c=3"]


def command_line(command: str) -> ArgumentParser:
    parser = import_module(modules()[command]).command_line()
    assert isinstance(parser, AnyOrderParser)
    return parser


def parsers() -> dict[str, ArgumentParser]:
    """Map the words of a command, or of each of its actions, to its parser."""
    found = {}
    for command in modules():
        parser = command_line(command)
        actions = actions_of(parser)
        found |= {f"{command} {word}": each for word, each in actions.items()} if actions else {command: parser}
    return found


PARSERS = parsers()
SEVERAL = sorted(
    name
    for name, parser in PARSERS.items()
    if any(each.nargs in ("*", "+") for each in parser._get_positional_actions())
)


def test_several_commands_take_names() -> None:
    """So that the tests below cover more than a few."""
    assert {"consume", "config explain", "produce", "topics describe", "quotas set", "verify"} <= set(SEVERAL)


@pytest.mark.parametrize("name", SEVERAL)
def test_names_may_be_on_both_sides_of_options(name: str) -> None:
    command, *action = name.split()
    parser = command_line(command)
    options = [*NEEDED.get(name, "").split(), "--json"]
    expected = parser.parse_args([*action, *options, *NAMES])
    assert len(NAMES) in [len(value) for value in vars(expected).values() if isinstance(value, list)]
    for at in range(1, 4):
        assert parser.parse_args([*action, *NAMES[:at], *options, *NAMES[at:]]) == expected
    assert parser.parse_args([*action, *options, "--", *NAMES]) == expected


@pytest.mark.parametrize("name", SEVERAL)
def test_unknown_option_between_names_is_reported(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    command, *action = name.split()
    with pytest.raises(SystemExit):
        command_line(command).parse_args([*action, "a=1", *NEEDED.get(name, "").split(), "--no-such-option", "b=2"])
    assert "unrecognized arguments: --no-such-option " in capsys.readouterr().err


@pytest.mark.parametrize("name", sorted(name for name in PARSERS if " " in name))
def test_options_may_precede_the_action(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With and without a value, although the action's parser defines them."""
    command, action = name.split()
    for option in PARSERS[name]._actions:
        words = [option.option_strings[-1], *([] if option.nargs == 0 else ["list"])] if option.option_strings else []
        errors = []
        for line in ([*words, action], [action, *words]):
            with pytest.raises(SystemExit):
                command_line(command).parse_args([*line, "--help"])
            errors.append(capsys.readouterr())
        assert errors[0] == errors[1]


def test_names_that_begin_with_a_minus_follow_two_dashes() -> None:
    options = command_line("topics").parse_args(["describe", "--json", "--", "-odd", "b"])
    assert (options.names, options.json) == (["-odd", "b"], True)
    assert command_line("topics").parse_args(["--json", "--timeout", "3", "describe", "--", "-odd"]).names == ["-odd"]
