"""Command lines whose mistakes are told in one line."""

from __future__ import annotations

import argparse
from typing import NoReturn


class OneLineParser(argparse.ArgumentParser):
    """Ends with exit code 2 for a mistake, without the whole usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {told(self, message)} (--help shows the options)\n")


def told(parser: argparse.ArgumentParser, message: str) -> str:
    """What argparse has against a command line; of a missing action, which there are."""
    if message.endswith(" required: ACTION"):
        for each in parser._actions:
            if isinstance(each, argparse._SubParsersAction):
                return f"what is to be done? {', '.join(each.choices)}"
    return message
