"""All command lines as values: from the table of commands, their parsers, and the broker's usage."""

from __future__ import annotations

import argparse
import re
from importlib import import_module
from typing import NamedTuple

from broker.main import USAGE as BROKER_USAGE
from pybroker.cli.commands import COMMANDS, Command

#: An option in the broker's usage, which has no parser.
_BROKER_OPTION = re.compile(r"^  (--[a-z-]+)( [A-Z=]+)?\s+(.*)", re.MULTILINE)
_CHOICES = {"--log-level": ("debug", "info", "warning", "error"), "--log-format": ("text", "json")}


class Option(NamedTuple):
    """An option. `value` is the placeholder of its value, or None if it takes none."""

    names: tuple[str, ...]
    value: str | None
    choices: tuple[str, ...]
    about: str


class CommandLine(NamedTuple):
    """A command, or one of its actions."""

    name: str
    about: str
    arguments: tuple[str, ...]
    """Placeholders of the positional arguments."""
    choices: tuple[str, ...]
    """Words that a positional argument may be."""
    options: tuple[Option, ...]
    actions: tuple[CommandLine, ...]


def command_lines() -> list[CommandLine]:
    """Return all commands, ordered by name, each with the one-line help of the table."""
    return [_of_command(COMMANDS[name]) for name in sorted(COMMANDS)]


def _of_command(row: Command) -> CommandLine:
    found = _serve() if row.name == "serve" else _of_parser(row.name, import_module(row.module).command_line())
    return found._replace(about=f"{row.help[0].upper()}{row.help[1:]}.")


def _serve() -> CommandLine:
    """The broker's options, from its usage: it has no parser."""
    options = tuple(
        Option((name,), value.strip() if value else None, _CHOICES.get(name, ()), about)
        for name, value, about in _BROKER_OPTION.findall(BROKER_USAGE)
    )
    return CommandLine("serve", "", ("FILE",), (), options, ())


def _of_parser(name: str, parser: argparse.ArgumentParser) -> CommandLine:
    options: list[Option] = []
    arguments: list[str] = []
    choices: list[str] = []
    actions: tuple[CommandLine, ...] = ()
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            actions = tuple(_of_parser(word, each) for word, each in action.choices.items())
        elif action.option_strings:
            options.append(_option(action, parser))
        else:
            arguments.append(_value_name(action) or action.dest.upper())
            choices += [str(each) for each in action.choices or ()]
    about = parser.description or ""
    return CommandLine(name, about[:1].upper() + about[1:], tuple(arguments), tuple(choices), tuple(options), actions)


def _option(action: argparse.Action, parser: argparse.ArgumentParser) -> Option:
    about = (action.help or "") % {**vars(action), "prog": parser.prog}
    choices = tuple(str(each) for each in action.choices or ())
    return Option(tuple(action.option_strings), _value_name(action), choices, about)


def _value_name(action: argparse.Action) -> str | None:
    if action.nargs == 0:
        return None
    if isinstance(action.metavar, str):
        return action.metavar
    return "|".join(map(str, action.choices)) if action.choices is not None else action.dest.upper()
