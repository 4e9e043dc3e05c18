"""Command lines whose words may stand in any order, and whose mistakes are told in one line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from pybroker.cli.terminal_escape import harmless

if TYPE_CHECKING:
    from _typeshed import SupportsWrite


class AnyOrderParser(argparse.ArgumentParser):
    """Takes options before the action, between names and after them: argparse has them behind the action, and takes
    names from one place alone. So it is still with `--`, behind which names may begin with a `-`.
    """

    _is_in_a_round = False

    def print_help(self, file: SupportsWrite[str] | None = None) -> None:
        """As argparse's, but that an output which refuses is an OSError, and not passed over."""
        (sys.stdout if file is None else file).write(self.format_help())

    def parse_known_args(  # type: ignore[override]  # what argparse's overloads come to
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
        self._is_in_a_round = True  # each of two, of options and of names, comes by here
        try:
            return self.parse_known_intermixed_args(words, namespace)
        finally:
            self._is_in_a_round = False


class OneLineParser(AnyOrderParser):
    """Ends with exit code 2 for a mistake, without the whole usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {told(self, message)} (--help shows the options)\n")


def told(parser: argparse.ArgumentParser, message: str) -> str:
    """What argparse has against a command line; of a missing action, which there are."""
    if message.endswith(" required: ACTION"):
        return f"what is to be done? {', '.join(actions_of(parser))}"
    return harmless(message)


def actions_of(parser: argparse.ArgumentParser) -> Mapping[str, argparse.ArgumentParser]:
    """The actions of a command that has any, by their words."""
    for each in parser._actions:
        if isinstance(each, argparse._SubParsersAction):
            return each.choices
    return {}


def action_place(words: Sequence[str], actions: Mapping[str, argparse.ArgumentParser]) -> int | None:
    """Where an action's word stands, if it is the first that is no option and no value of one."""
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
    """The action's word in front of options that stand before it."""
    at = action_place(words, actions)
    return list(words) if at is None else [words[at], *words[:at], *words[at + 1 :]]
