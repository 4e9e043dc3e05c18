"""What the exceptions of the rooms below mean to a client: one table from exception to error code.

The rooms raise their own exceptions, with fields; only here are they turned into Kafka's codes. Subclasses follow
their nearest listed ancestor.
"""

from __future__ import annotations

from protocol.errors import ErrorCode

ERROR_CODES: dict[type[BaseException], ErrorCode] = {}


def error_code_of(error: BaseException) -> ErrorCode:
    """The code that stands for an exception; UNKNOWN_SERVER_ERROR for one that nobody expected."""
    for kind in type(error).__mro__:
        code = ERROR_CODES.get(kind)
        if code is not None:
            return code
    return ErrorCode.UNKNOWN_SERVER_ERROR
