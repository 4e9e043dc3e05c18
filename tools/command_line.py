"""What the command lines of this room have in common."""

from __future__ import annotations

from typing import NoReturn

from pybroker.cli.parser import AnyOrderParser, told


class OfflineParser(AnyOrderParser):
    """A bad command line is told in one line, and ends with `usage_exit_code`: 1 where Apache Kafka's tool does so."""

    usage_exit_code = 1

    def error(self, message: str) -> NoReturn:
        self.exit(self.usage_exit_code, f"{self.prog}: {told(self, message)} (--help shows the options)\n")
