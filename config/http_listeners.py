"""Listeners of HTTP, which are not Kafka's: `http://host:port`."""

from __future__ import annotations

import re

from .values import ConfigValue

_FORM = re.compile(r"http://(?:\[([0-9a-fA-F:.%]+)\]|([0-9a-zA-Z\-._]*)):([0-9]{1,5})/?")


def parse_http_listener(text: str) -> tuple[str | None, int]:
    """Host, None for all interfaces, and port, 0 for any. ValueError."""
    match = _FORM.fullmatch(text)
    if match is None or int(match[3]) > 65535:
        raise ValueError(text)
    return match[1] or match[2] or None, int(match[3])


def http_listeners_reason(_: str, value: ConfigValue) -> str | None:
    """What is wrong with a list of them, if anything is."""
    assert isinstance(value, tuple)
    for text in value:
        try:
            parse_http_listener(text)
        except ValueError:
            return f"{text} is no listener of HTTP"
    return None
