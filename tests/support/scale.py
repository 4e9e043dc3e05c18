"""The setting for test sizes: PYBROKER_TEST_SCALE (1 = the small sizes of `make test`)."""

import os

SCALE = float(os.environ.get("PYBROKER_TEST_SCALE", "1"))


def scaled(count: int, *, at_least: int = 1) -> int:
    """Return `count` times the scale, as a whole number."""
    return max(at_least, int(count * SCALE))


#: The brokers of the most expensive tests: only ours at the small sizes, because Kafka takes minutes with them.
COSTLY_BROKERS = ["ours"] if SCALE <= 1 else ["ours", "kafka"]
