"""A broker that a SIGKILL ends at one step of a copy to remote storage, or of a deletion there.

    python killed_tier.py STEP server.properties

started: the copy is on record. half: some objects are stored. stored: all are. deleting: the deletion is on record.
deleted: the objects are gone.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from broker import main
from broker.tiering import wiring
from remote.directory_store import DirectoryStore

STEPS = ("started", "half", "stored", "deleting", "deleted")
#: The number of objects that are stored before "half".
_SOME = 3


def _end() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class KilledLayout:
    """Another layout, whose calls end the process at `step`."""

    def __init__(self, layout: Any, step: str) -> None:
        self._layout = layout
        self._step = step

    def __getattr__(self, name: str) -> Any:
        return getattr(self._layout, name)

    def copy(self, *arguments: Any) -> Any:
        if self._step == "started":
            _end()
        found = self._layout.copy(*arguments)
        if self._step == "stored":
            _end()
        return found

    def delete(self, *arguments: Any) -> None:
        if self._step == "deleting":
            _end()
        self._layout.delete(*arguments)
        if self._step == "deleted":
            _end()


def run(step: str, config: str) -> int:
    """Run the broker until it ends."""
    make = wiring.configured_layout
    wiring.configured_layout = lambda settings: KilledLayout(make(settings), step)  # type: ignore[assignment]
    if step == "half":
        put, count = DirectoryStore.put, 0

        def put_some(store: DirectoryStore, *arguments: Any) -> None:
            nonlocal count
            put(store, *arguments)
            count += 1
            if count == _SOME:
                _end()

        DirectoryStore.put = put_some  # type: ignore[method-assign, assignment]
    return main.main([config])


if __name__ == "__main__":
    sys.exit(run(sys.argv[1], sys.argv[2]))
