"""A broker that leaves nothing behind: a free port of loopback, and a directory that is removed when it ends.

For tests, in whatever language: `pybroker serve --ephemeral --print-json --until-stdin-ends`.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from tempfile import TemporaryDirectory

#: Settings without which tests would wait for things that they do not test.
QUICK: Mapping[str, str] = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
}


@contextmanager
def ephemeral(overrides: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Yield the overrides of such a broker. Those of the command line win; a log.dirs among them is not removed.

    The directory created here is removed even if a signal arrives before the broker can handle it.
    """
    settings = {**QUICK, **overrides}
    if not {"log.dirs", "log.dir"}.isdisjoint(overrides):
        yield settings
        return
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda *_: sys.exit(0))
    with TemporaryDirectory(prefix="pybroker-", ignore_cleanup_errors=True) as directory:
        yield {**settings, "log.dirs": directory}
