"""Keep librdkafka from printing fatal errors, which our commands report in their own words.

librdkafka prints fatal errors at any log level. With a `logger`, a client queues its log lines until it is polled. At
log level 0 the queue gets only fatal errors, at most one for each client. With `debug`, librdkafka logs everything at
any level, and the user wants to see it: then the properties stay unchanged.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

_UNHEARD = logging.getLogger("pybroker.quiet_librdkafka")
_UNHEARD.addHandler(logging.NullHandler())
_UNHEARD.propagate = False


def without_lines(properties: Mapping[str, object]) -> dict[str, object]:
    """Return the properties, extended so that the client prints nothing unless they ask for output."""
    return {"log_level": 0} if properties.get("debug") else {"log_level": 0, "logger": _UNHEARD}
