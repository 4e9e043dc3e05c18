"""Make a long access log by drawing lines of the recorded one at random (seeded), with increasing times.

    python resample.py OUTPUT [--lines N] [--seed N] [--begin TIME] [--rate N] [--broken N]

A line keeps request, status, size, referer and agent. Each line has a different client address (10.0.0.0/8, in order).
Some lines may be broken, as after a full disk or by another program.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from ipaddress import IPv4Address
from pathlib import Path

RECORDED = Path(__file__).with_name("access.log")

_FIRST_CLIENT = int(IPv4Address("10.0.0.0"))
_MOST_LINES = 1 << 24
_BEGIN = datetime(2026, 11, 21, 23, 55, tzinfo=UTC)
_PARTS = re.compile(r"\S+( - \S+ \[)[^]]*(\].*)")


def resampled(
    recorded: Sequence[str], lines: int, *, seed: int, begin: datetime, rate: float, broken: int
) -> Iterator[str]:
    """Yield lines without newline: about `rate` a second from `begin` on; every `broken`-th one is broken (0: none)."""
    chance = random.Random(seed)
    parts = [match.groups() for match in map(_PARTS.fullmatch, recorded) if match is not None]
    seconds = begin.timestamp()
    for number in range(lines):
        user, rest = chance.choice(parts)
        seconds += chance.expovariate(rate)
        line = f"{IPv4Address(_FIRST_CLIENT + number)}{user}{_time(seconds)}{rest}"
        yield _damaged(line, chance) if broken and number % broken == broken - 1 else line


def _time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%d/%b/%Y:%H:%M:%S %z}"


def _damaged(line: str, chance: random.Random) -> str:
    """Return a broken line: a part of it, another program's output, or nothing."""
    return chance.choice([line[: chance.randrange(1, len(line))], "Traceback (most recent call last):", ""])


def main() -> int:
    parser = argparse.ArgumentParser(description="Make a long access log out of the recorded one.")
    parser.add_argument("output", type=Path)
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--begin", type=datetime.fromisoformat, default=_BEGIN, metavar="TIME", help="of the first line, with its zone"
    )
    parser.add_argument("--rate", type=float, default=80, metavar="N", help="lines a second, about")
    parser.add_argument("--broken", type=int, default=0, metavar="N", help="each N lines one that is broken")
    options = parser.parse_args()
    if not 0 <= options.lines <= _MOST_LINES:
        parser.error(f"--lines: at most {_MOST_LINES}, as many as there are addresses")
    recorded = RECORDED.read_text().splitlines()
    lines = resampled(
        *(recorded, options.lines),
        seed=options.seed, begin=options.begin, rate=options.rate, broken=options.broken,
    )  # fmt: skip
    with options.output.open("w") as file:
        file.writelines(f"{line}\n" for line in lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
