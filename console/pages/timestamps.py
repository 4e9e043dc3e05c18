"""Points in time, as people enter them."""

from __future__ import annotations

import argparse
import time

from console.errors import BadRequest
from pybroker.cli.client.times import time_ms

_LONGEST = 40


def moment_ms(text: str) -> int:
    """Milliseconds since the epoch of what `pybroker consume --from` takes, too. BadRequest."""
    if len(text) > _LONGEST:
        raise BadRequest(f"time: of more than {_LONGEST} characters there is none")
    try:
        return time_ms(text, int(time.time() * 1000))
    except argparse.ArgumentTypeError as error:
        raise BadRequest(f"time: {error}") from None
