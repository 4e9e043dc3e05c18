"""The page of error codes, generated from protocol/error_codes.py."""

from __future__ import annotations

from protocol.error_codes import ErrorCode
from tools.site.markdown import table

_HEAD = """\
# Error codes

The errors in responses. Numbers and names are Kafka's; clients in all languages have them, some with other spelling.
**Retriable** errors may succeed when the client sends the same request again.

"""


def error_codes_page() -> str:
    """Return the page with all codes, sorted by number."""
    rows = (
        (f'<a id="{each.name}"></a>{each.value}', f"`{each.name}`", "yes" if each.retriable else "", each.text)
        for each in sorted(ErrorCode)
    )
    return _HEAD + table(("code", "name", "retriable", "meaning"), rows)
