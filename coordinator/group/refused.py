"""The error of a request that a group rejects: its code and its message."""

from __future__ import annotations

from protocol.error_codes import ErrorCode


class Refused(Exception):
    """Raised by a decision before it changes anything. `message` is None where the code is enough."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(message or code.name)
        self.code = code
        self.message = message

    def __reduce__(self) -> tuple[type[Refused], tuple[ErrorCode, str | None]]:
        return type(self), (self.code, self.message)  # pickled between worker processes
