"""The names that rotated files of a log have. A file with another name belongs to another program.

Known are the schemes of logrotate (`start`, `dateext`, `dateformat`, `extension`), savelog, newsyslog, cronolog,
rotatelogs, Log4j, Logback, NLog, lumberjack and Python's logging handlers.
"""

from __future__ import annotations

import re
from pathlib import Path

_NUMBER = r"\d{1,5}"
_DAY = r"(?:19|20)\d\d(?P<dash>[-_.]?)(?:0[1-9]|1[0-2])(?:(?P=dash)(?:0[1-9]|[12]\d|3[01]))?"
_TIME = r"[T_.-]?\d\d(?:[-_.:]?\d\d){0,2}(?:[.,]\d{1,9})?(?:Z|[+-]\d{2}:?\d\d)?"
_DATE = rf"(?:{_DAY}(?:{_TIME})?|\d{{10}})"  # ten digits: seconds since 1970
_SPARE = r"(?:old|bak|backup|prev|previous|last)"
#: app.log.1, app.log-20260101, app.log.2026-01-01.2, app.log.old, app.log~
_BEHIND = re.compile(rf"(?:\.{_NUMBER}|[._-]{_DATE}(?:[._-]{_NUMBER})?|[._-]{_SPARE}|~)")
#: app-2026-01-01.log, app.1.log. A number behind a minus may count programs: worker-1.log beside worker.log.
_BEFORE_EXTENSION = re.compile(rf"(?:\.{_NUMBER}|[._-]{_DATE}(?:[._-]{_NUMBER})?)")
_COMPRESSED = re.compile(r"\.(?:gz|bz2|xz|zst|lz4|lzma|zip|Z)")


def is_rotated_name(log: Path, name: str) -> bool:
    """Whether `name` is that of a rotated file of the log which is not compressed."""
    if name.startswith(log.name) and _BEHIND.fullmatch(name, len(log.name)):
        return True
    extension = log.suffix
    if not extension or not name.endswith(extension) or not name.startswith(log.stem):
        return False
    return bool(_BEFORE_EXTENSION.fullmatch(name, len(log.stem), len(name) - len(extension)))


def is_compressed_name(log: Path, name: str) -> bool:
    """Whether `name` is that of a compressed rotated file of the log."""
    found = _COMPRESSED.search(name, max(0, len(name) - 5))
    return found is not None and found.end() == len(name) and is_rotated_name(log, name[: found.start()])
