"""Patterns and schemas of well-known log lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Preset:
    """Values for the keys of the same names."""

    format: Literal["json", "regex"]
    schema: str
    pattern: str | None = None


#: The text within quotes; Apache's server writes a quote as \" (nginx as \x22). The pattern never backtracks, so a
#: value of any length needs no stack.
_QUOTED = r'[^"\\]*+(?:\\.[^"\\]*+)*+'

#: A second line would be lost. More fields on the line may follow.
_NO_MORE_LINES = r"(?![^\r\n]*+[\r\n]++.)"

PRESETS = {
    # The log format "combined" of nginx, and of Apache's server; a client may have sent anything for a request
    "nginx_combined": Preset(
        "regex",
        "status INT, bytes BIGINT",
        r"^(?<remote_addr>\S+) - (?<remote_user>\S+) \[(?<time>[^\]]+)\] "
        rf'"(?:(?<method>[^\s"]+) (?<path>\S+) (?<protocol>(?!"){_QUOTED})|{_QUOTED})" '
        rf'(?<status>\d{{3}}) (?<bytes>\d+) "(?<referer>{_QUOTED})" "(?<user_agent>{_QUOTED})"' + _NO_MORE_LINES,
    ),
    # The log_format with escape=json in docs/reference/pipeline.md
    "nginx_json": Preset(
        "json",
        "time STRING, remote_addr STRING, method STRING, path STRING, status INT, bytes BIGINT, referer STRING, "
        "user_agent STRING, request_time DOUBLE",
    ),
}
