"""The argument parser of this room's commands."""

from __future__ import annotations

from typing import NoReturn

from pybroker.cli.parser import AnyOrderParser, error_text


class OfflineParser(AnyOrderParser):
    """Reports a bad command line in one line and exits with `usage_exit_code`: 1 where Apache Kafka has the tool."""

    usage_exit_code = 1

    def error(self, message: str) -> NoReturn:
        self.exit(self.usage_exit_code, f"{self.prog}: {error_text(self, message)} (--help shows the options)\n")
