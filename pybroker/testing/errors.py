"""The exception of this package."""


class BrokerError(Exception):
    """A broker does not start, or refuses a command."""
