"""The page of error codes, of protocol/errors.py."""

from __future__ import annotations

from protocol.errors import ErrorCode
from tools.site.markdown import table

_HEAD = """\
# Error codes

What responses say is wrong. The numbers are Kafka's, and so are the names; clients of all languages have them, some in
other spelling. **Again** says whether it may help to send the same once more.

"""


def error_codes_page() -> str:
    """All codes in the order of their numbers."""
    rows = (
        (f'<a id="{each.name}"></a>{each.value}', f"`{each.name}`", "yes" if each.retriable else "", each.text)
        for each in sorted(ErrorCode)
    )
    return _HEAD + table(("code", "name", "again", "what it says"), rows)
