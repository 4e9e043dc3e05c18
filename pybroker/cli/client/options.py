"""Command lines of commands that talk to a broker.

What to do is a word, as in `pybroker topics list`; where Apache Kafka's tools have an option for it (`--list`), that
works as well, wherever it stands.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pybroker.cli.option_values import key_value, seconds
from pybroker.cli.parser import OneLineParser, action_place

if TYPE_CHECKING:
    from pybroker.cli.client.session import Session

    Action = Callable[[Session, argparse.Namespace], None]

_NEGATIVE = re.compile(r"-\d")


class ClientParser(OneLineParser):
    """A command, or one of its actions. `add_action` makes it one that has several."""

    def __init__(self, prog: str, description: str, epilog: str | None = None) -> None:
        super().__init__(
            prog=prog,
            description=description,
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        self._actions_of_command: argparse._SubParsersAction[ClientParser] | None = None

    def add_action(self, word: str, run: Action, description: str) -> ClientParser:
        """Add what follows the command's name; its options are the caller's to add."""
        if self._actions_of_command is None:
            self._actions_of_command = self.add_subparsers(
                title="actions", metavar="ACTION", required=True, parser_class=ClientParser
            )
        action = self._actions_of_command.add_parser(word, help=description, description=description)
        action.set_defaults(run=run)
        action.add_client_options()
        return action

    def add_client_options(self) -> None:
        """Which broker, and how to talk to it and to the user."""
        group = self.add_argument_group("connection and output")
        group.add_argument("-b", "--bootstrap-server", metavar="HOST:PORT,...", help="(localhost:9092)")
        group.add_argument("--profile", metavar="NAME", help="address and properties of that name in profiles.toml")
        group.add_argument(
            "--command-config", type=Path, metavar="FILE", help="properties of the client, such as security.protocol"
        )
        group.add_argument(
            "-X",
            "--property",
            type=key_value,
            action="append",
            default=[],
            metavar="KEY=VALUE",
            help="one of them, in librdkafka's words; wins over the file",
        )
        group.add_argument("--timeout", type=seconds, default=30.0, metavar="SECONDS", help="for an answer (30)")
        group.add_argument("--json", action="store_true", help="an object a line")

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Understand a command line, Kafka's way of naming the action included."""
        words = _with_negative_values(arguments)
        known = self._actions_of_command.choices if self._actions_of_command is not None else {}
        for at, word in enumerate(words):
            if word == "--":  # names follow
                break
            if word.startswith("--") and word[2:] in known:
                rest = [*words[:at], *words[at + 1 :]]
                if (other := action_place(rest, known)) is not None:  # it would be a name, perhaps of what is deleted
                    self.error(f"{rest[other]} and {word}: which of the two?")
                words = [word[2:], *rest]
                break
        return self.parse_args(words)


def _with_negative_values(arguments: Sequence[str]) -> list[str]:
    """`--from -5m` as `--from=-5m`: argparse would take the value for an option."""
    words: list[str] = []
    for word in arguments:
        if _NEGATIVE.match(word) and words and words[-1].startswith("--") and "=" not in words[-1]:
            words[-1] += f"={word}"
        else:
            words.append(word)
    return words
