"""`pybroker random-uuid`: print an id for a new cluster."""

from __future__ import annotations

from collections.abc import Sequence

from protocol.id_text import id_text
from pybroker.cli.exit_codes import end
from runtime.ids import random_id
from tools.command_line import OfflineParser


def command_line() -> OfflineParser:
    """Return the parser of the command line; the documentation site has a page made from its help."""
    return OfflineParser(prog="pybroker random-uuid", description="Print a random id for a cluster.")


def main(argv: Sequence[str] | None = None) -> int:
    """Print a random id and return the exit code."""
    command_line().parse_args(argv)
    print(id_text(random_id()))
    return 0


if __name__ == "__main__":
    end(main)
