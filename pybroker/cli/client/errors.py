"""Why a command ends early."""


class CommandError(Exception):
    """What went wrong, in one line: exit code 1."""


class UsageError(Exception):
    """A command line or a property that makes no sense: exit code 2."""
