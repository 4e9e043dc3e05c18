"""The exception of the simulation's checks."""


class Violation(Exception):
    """An invariant does not hold. `name` is that of the check."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name
