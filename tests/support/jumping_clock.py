"""A broker whose wall clock jumps while it runs: `-m tests.support.jumping_clock FILE CONFIG` adds the offset in FILE.

Only `runtime.clock` reads the time of day, so the jump happens there; the monotonic clock does not change.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import runtime.clock
from tests.support.brokers import OurBroker

REPOSITORY = Path(__file__).parents[2]
HOUR_MS = 3_600_000


class JumpingBroker(OurBroker):
    """Our broker, with a clock that a test sets."""

    def __init__(self, directory: Path, properties: Mapping[str, str] | None = None) -> None:
        self._offset = directory / "clock-offset"
        directory.mkdir(parents=True)
        self._offset.write_text("0")
        super().__init__(directory, properties)

    def jump(self, offset_ms: int) -> None:
        """Offset the clock by so much from now on."""
        new = self._offset.with_suffix(".new")
        new.write_text(str(offset_ms))
        new.replace(self._offset)

    def _command(self, config: Path) -> list[str]:
        python = ["env", f"PYTHONPATH={REPOSITORY}", sys.executable, "-m", "tests.support.jumping_clock"]
        return [*python, str(self._offset), str(config)]


def main() -> int:
    """Run the broker's process."""
    offset, config = sys.argv[1:]
    now_ms = runtime.clock.Clock.now_ms

    def jumped(self: runtime.clock.Clock) -> int:
        return now_ms(self) + int(Path(offset).read_text())

    runtime.clock.Clock.now_ms = jumped  # type: ignore[method-assign]
    from broker.main import main as broker_main

    return broker_main([config])


if __name__ == "__main__":
    sys.exit(main())
