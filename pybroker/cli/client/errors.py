"""Why a command ends early."""


class CommandError(Exception):
    """What went wrong, in one line: exit code 1. `error_code` is the broker's or librdkafka's, where there is one."""

    def __init__(self, line: str, error_code: int | None = None) -> None:
        super().__init__(line)
        self.error_code = error_code


class UsageError(Exception):
    """A command line or a property that makes no sense: exit code 2."""
