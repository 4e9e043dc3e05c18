"""Parsers of commands that talk to a broker.

An action is a word, as in `pybroker topics list`. The option of Apache Kafka's tools (`--list`) works too, in any
position.
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

NO_CONTROLLERS = "controllers cannot be asked: name a broker by --bootstrap-server"
"""librdkafka talks only to brokers."""
_NEGATIVE = re.compile(r"-\d")


class ClientParser(OneLineParser):
    """The parser of a command or an action. `add_action` adds an action."""

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
        """Add an action, and return its parser, to which the caller adds options."""
        action = self.add_local_action(word, description)
        action.set_defaults(run=run)
        action.add_client_options()
        return action

    def add_local_action(self, word: str, description: str) -> ClientParser:
        """Add an action that asks no broker, and return its parser. The command runs it itself."""
        if self._actions_of_command is None:
            self._actions_of_command = self.add_subparsers(
                title="actions", metavar="ACTION", required=True, parser_class=ClientParser
            )
        return self._actions_of_command.add_parser(word, help=description, description=description)

    def add_client_options(self) -> None:
        """Add options for the broker, the client and the output."""
        group = self.add_argument_group("connection and output")
        group.add_argument("-b", "--bootstrap-server", metavar="HOST:PORT,...", help="(localhost:9092)")
        group.add_argument("--profile", metavar="NAME", help="take address and properties from profiles.toml")
        group.add_argument(
            "--command-config", type=Path, metavar="FILE", help="a file of client properties, such as security.protocol"
        )
        group.add_argument(
            "-X",
            "--property",
            type=key_value,
            action="append",
            default=[],
            metavar="KEY=VALUE",
            help="a client property by librdkafka's name; wins over the file",
        )
        group.add_argument(
            "--timeout", type=seconds, default=30.0, metavar="SECONDS", help="how long to wait for a response (30)"
        )
        group.add_argument("--json", action="store_true", help="print one object a line")

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Parse a command line, also with Kafka's option for an action."""
        words = _with_negative_values(arguments)
        if any(word.partition("=")[0] == "--bootstrap-controller" for word in words):  # of Apache Kafka's tools
            self.error(NO_CONTROLLERS)
        known = self._actions_of_command.choices if self._actions_of_command is not None else {}
        for at, word in enumerate(words):
            if word == "--":  # names follow
                break
            if word.startswith("--") and word[2:] in known:
                rest = [*words[:at], *words[at + 1 :]]
                other = action_place(rest, known)
                if other is not None:
                    if word in known[rest[other]]._option_string_actions:
                        break  # an option of that action
                    # else the word would be a name, perhaps of a topic to delete
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
