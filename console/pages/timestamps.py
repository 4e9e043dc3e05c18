"""Points in time that users enter."""

from __future__ import annotations

import argparse
import time

from console.errors import BadRequest
from pybroker.cli.client.times import time_ms

_LONGEST = 40


def moment_ms(text: str) -> int:
    """Return milliseconds since the epoch for the formats of `pybroker consume --from`. Raises BadRequest."""
    if len(text) > _LONGEST:
        raise BadRequest(f"time: at most {_LONGEST} characters")
    try:
        return time_ms(text, int(time.time() * 1000))
    except argparse.ArgumentTypeError as error:
        raise BadRequest(f"time: {error}") from None
