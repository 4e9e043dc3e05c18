"""Parsers that accept options in any position, and report an error in one line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from pybroker.cli.terminal_escape import escape_controls

if TYPE_CHECKING:
    from _typeshed import SupportsWrite


class AnyOrderParser(argparse.ArgumentParser):
    """Accepts options before the action, between names and after them. argparse accepts them only after the action, and
    names only in one place; so does this parser with `--`, after which names may begin with a `-`.
    """

    _is_in_a_round = False

    def print_help(self, file: SupportsWrite[str] | None = None) -> None:
        """Print as argparse does, but raise OSError if the output fails, which argparse ignores."""
        (sys.stdout if file is None else file).write(self.format_help())

    def parse_known_args(  # type: ignore[override]  # argparse has overloads
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """As argparse's."""
        words = list(sys.argv[1:] if args is None else args)
        actions = actions_of(self)
        if actions:
            return super().parse_known_args(_action_first(words, actions), namespace)
        has_several = any(each.nargs in ("*", "+") for each in self._get_positional_actions())
        if self._is_in_a_round or not has_several or "--" in words:
            return super().parse_known_args(words, namespace)
        self._is_in_a_round = True  # both passes, of options and of names, call this
        try:
            return self.parse_known_intermixed_args(words, namespace)
        finally:
            self._is_in_a_round = False


class OneLineParser(AnyOrderParser):
    """Exits with code 2 and one line for a bad command line, without the usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {error_text(self, message)} (--help shows the options)\n")


def error_text(parser: argparse.ArgumentParser, message: str) -> str:
    """Return argparse's error message; for a missing action, the list of actions."""
    if message.endswith(" required: ACTION"):
        return f"an action is missing: {', '.join(actions_of(parser))}"
    return escape_controls(message)


def actions_of(parser: argparse.ArgumentParser) -> Mapping[str, argparse.ArgumentParser]:
    """Return the actions of a command by name; empty if it has none."""
    for each in parser._actions:
        if isinstance(each, argparse._SubParsersAction):
            return each.choices
    return {}


def action_place(words: Sequence[str], actions: Mapping[str, argparse.ArgumentParser]) -> int | None:
    """Return the position of the action, if it is the first word that is neither an option nor a value."""
    with_value = {
        name
        for parser in actions.values()
        for name, option in parser._option_string_actions.items()
        if option.nargs != 0
    }
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] != "--":
        at += 2 if words[at] in with_value else 1
    return at if at < len(words) and words[at] in actions else None


def _action_first(words: Sequence[str], actions: Mapping[str, argparse.ArgumentParser]) -> list[str]:
    """Move the action before the options that precede it."""
    at = action_place(words, actions)
    return list(words) if at is None else [words[at], *words[:at], *words[at + 1 :]]
