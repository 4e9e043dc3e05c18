"""What goes wrong with a broker for tests."""


class BrokerError(Exception):
    """A broker that does not start, or that does not do what it is asked for."""
