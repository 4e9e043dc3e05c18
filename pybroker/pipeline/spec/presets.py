"""What well-known lines look like, so that nobody has to write it down again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Preset:
    """Stands for the keys of the same names."""

    format: Literal["json", "regex"]
    schema: str
    pattern: str | None = None


#: What stands in quotes, where Apache's server writes a quote as \" (nginx as \x22). It never goes back on what it has
#: matched, so that a value of any length takes no stack.
_QUOTED = r'[^"\\]*+(?:\\.[^"\\]*+)*+'

PRESETS = {
    # The log format "combined" of nginx, and of Apache's server; a client may have sent anything for a request
    "nginx_combined": Preset(
        "regex",
        "status INT, bytes BIGINT",
        r"^(?<remote_addr>\S+) - (?<remote_user>\S+) \[(?<time>[^\]]+)\] "
        rf'"(?:(?<method>[^\s"]+) (?<path>\S+) (?<protocol>(?!"){_QUOTED})|{_QUOTED})" '
        rf'(?<status>\d{{3}}) (?<bytes>\d+) "(?<referer>{_QUOTED})" "(?<user_agent>{_QUOTED})"',
    ),
    # Of a log_format with escape=json that docs/reference/pipeline.md shows
    "nginx_json": Preset(
        "json",
        "time STRING, remote_addr STRING, method STRING, path STRING, status INT, bytes BIGINT, referer STRING, "
        "user_agent STRING, request_time DOUBLE",
    ),
}
