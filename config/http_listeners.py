"""HTTP listeners, which Kafka does not have: `http://host:port`."""

from __future__ import annotations

import re

from .values import ConfigValue

_FORM = re.compile(r"http://(?:\[([0-9a-fA-F:.]+(?:%[0-9a-zA-Z\-._]+)?)\]|([0-9a-zA-Z\-._]*)):([0-9]{1,5})/?")


def parse_http_listener(text: str) -> tuple[str | None, int]:
    """Return the host (None: all interfaces) and the port (0: any). Raises ValueError."""
    match = _FORM.fullmatch(text)
    if match is None or int(match[3]) > 65535:
        raise ValueError(text)
    return match[1] or match[2] or None, int(match[3])


def http_listeners_reason(_: str, value: ConfigValue) -> str | None:
    """Return why a list of HTTP listeners is invalid, or None."""
    assert isinstance(value, tuple)
    for text in value:
        try:
            parse_http_listener(text)
        except ValueError:
            return f"{text} is not an HTTP listener"
    return None
