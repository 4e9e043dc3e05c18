"""The errors of object_store as errors of this room, without the texts of servers.

An answer may repeat the access key and what was signed, and the URL of a request may have a signature in its query.
Only the status, the server's code and the kind of the failure are kept.
"""

from __future__ import annotations

import re

from obstore import exceptions

from remote.errors import Absent, Damaged, Denied, Exists, RemoteStorageError, Throttled, Unreachable, WrongClock

_KINDS: tuple[tuple[type[Exception], type[RemoteStorageError]], ...] = (
    (FileNotFoundError, Absent),
    (exceptions.AlreadyExistsError, Exists),
    (exceptions.PreconditionError, Exists),
    (exceptions.PermissionDeniedError, Denied),
    (exceptions.UnauthenticatedError, Denied),
    (exceptions.InvalidPathError, Damaged),
)
_STATUS = re.compile(r"status code: (\d{3} [A-Za-z ]+)")
_CODE = re.compile(r"<Code>(\w{1,60})</Code>|\"(?:code|reason)\"\s*:\s*\"(\w{1,60})\"")
_QUERY = re.compile(r"\?[^\s)\"',]+")
_USER = re.compile(r"//[^/\s@]+@")
_THROTTLED = ("429 ", "503 ")
#: Codes with which S3, Google and Azure ask for fewer requests, whatever the status.
_THROTTLED_CODES = ("SlowDown", "ServerBusy", "TooManyRequests", "rateLimitExceeded", "RequestLimitExceeded")
#: Codes of requests that this machine signs at a wrong time.
_CLOCK_CODES = ("RequestTimeTooSkewed", "RequestExpired", "AuthorizationRequestExpired")
#: Parts of descriptions of failures without an answer, with their meaning.
_FAILURES = (
    ("kind: Timeout", "no answer in time"),
    ("ConnectionRefused", "the connection was refused"),
    ("dns error", "the host's name is unknown"),
    ("UnknownIssuer", "the server's certificate is not trusted"),
    ("IncompleteBody", "the answer was cut short"),
    ("IncompleteMessage", "the connection was cut before the answer"),
    ("ConnectionReset", "the connection was reset"),
)


def reported(key: str, error: Exception) -> RemoteStorageError:
    """Return the error of this room for an error of an operation on an object."""
    if isinstance(error, RemoteStorageError):
        return error
    text = str(error)
    kind = next((ours for theirs, ours in _KINDS if isinstance(error, theirs)), Unreachable)
    found = _STATUS.search(text)
    if found is None:
        failure = next((meaning for part, meaning in _FAILURES if part in text), None)
        return kind(key, failure or first_line(error))
    code = _CODE.search(text)
    name = (code[1] or code[2]) if code else ""
    reason = f"the server answered {found[1].strip()}" + (f" ({name})" if name else "")
    if name in _CLOCK_CODES:
        return WrongClock(key, f"{reason}: the clock of this machine is wrong")
    if kind is Unreachable and (found[1].startswith(_THROTTLED) or name in _THROTTLED_CODES):
        return Throttled(key, reason)
    return kind(key, reason)


def first_line(error: Exception) -> str:
    """Return the reason without the library's description of the value that failed, and without queries of URLs."""
    line = next(iter(str(error).strip().splitlines()), type(error).__name__)
    return _USER.sub("//", _QUERY.sub("", line))
