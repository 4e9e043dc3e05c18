"""When a request that failed is sent again."""

from __future__ import annotations

from remote.errors import RemoteStorageError, Throttled, Unreachable

_MOST_TRIES = 3
_FIRST_PAUSE_S = 0.1
#: A store that asks for fewer requests gets more time.
_FIRST_PAUSE_OF_THROTTLED_S = 0.5


def pause_before_next(error: RemoteStorageError, tries: int, random: float) -> float | None:
    """Return the seconds to wait after `tries` tries, the last with `error`; None if there is no other one.

    It doubles with each try. `random`, from 0 to 1, takes away up to half of it: clients do not return together.
    """
    if tries >= _MOST_TRIES or not isinstance(error, Unreachable):
        return None
    first = _FIRST_PAUSE_OF_THROTTLED_S if isinstance(error, Throttled) else _FIRST_PAUSE_S
    return float(first * 2 ** (tries - 1) * (1 - random / 2))
