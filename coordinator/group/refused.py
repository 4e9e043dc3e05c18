"""A request that a group does not take: the error code of its answer, and the words that go with it."""

from __future__ import annotations

from protocol.errors import ErrorCode


class Refused(Exception):
    """Raised by decisions before they want anything: nothing has changed. `message` None where the code says it all."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(message or code.name)
        self.code = code
        self.message = message

    def __reduce__(self) -> tuple[type[Refused], tuple[ErrorCode, str | None]]:
        return type(self), (self.code, self.message)  # it goes between processes where there are several workers
