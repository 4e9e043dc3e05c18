"""Errors that end a command."""


class CommandError(Exception):
    """A failure, in one line: exit code 1. `error_code` is the broker's or librdkafka's, if there is one."""

    def __init__(self, line: str, error_code: int | None = None) -> None:
        super().__init__(line)
        self.error_code = error_code


class UsageError(Exception):
    """A wrong command line or property: exit code 2."""
