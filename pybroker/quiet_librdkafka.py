"""librdkafka prints what is fatal at any log level: commands that say such things in their own words do not want that.

Of a client that has a `logger` all lines wait in a queue until somebody polls it. At log level 0 these are the fatal
ones alone, of which a client has one at most. With `debug` librdkafka logs everything whatever the level is, and
whoever sets that wants to read it: then nothing is changed.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

_UNHEARD = logging.getLogger("pybroker.quiet_librdkafka")
_UNHEARD.addHandler(logging.NullHandler())
_UNHEARD.propagate = False


def without_lines(properties: Mapping[str, object]) -> dict[str, object]:
    """What makes a client of these properties print nothing, where they do not ask for it: more of them."""
    return {"log_level": 0} if properties.get("debug") else {"log_level": 0, "logger": _UNHEARD}
