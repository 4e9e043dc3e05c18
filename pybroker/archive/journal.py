"""How far a restore is: whose rows go where, so that the next attempt goes on, and nobody's records are taken for ours.

It is written before the first row. Row n of a partition goes to the offset `bases[partition]` + n; which are there,
the topic itself says (isolated/topic_restorer.py).
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from pybroker.archive.errors import DamagedArchive, UnusableTarget
from pybroker.archive.files import Files, Lock

_FORMAT, _VERSION = "pybroker-restore", 1


@dataclass(frozen=True)
class Restoring:
    """A restore of `topic` into `target`, a topic of `cluster`, as the producer that all its attempts are.

    `bases` are offsets by partition, `restored` how many rows the last attempt that came to its end has left there.
    """

    topic: str
    target: str
    cluster: str
    producer: tuple[int, int]
    bases: dict[int, int] = field(default_factory=dict)
    restored: dict[int, int] = field(default_factory=dict)


class Journal:
    """The file of one restore, which this process has alone. Errors, of all methods: OSError."""

    def __init__(self, path: Path, files: Files | None = None) -> None:
        """Errors: ArchiveBusy; DamagedArchive where something else is there."""
        self._path = path
        self._files = Files() if files is None else files
        self._files.make_directory(path.parent)
        self._lock = Lock(path.with_name(f"{path.name}.lock"))
        try:
            self.now = self._read()
        except BaseException:
            self._lock.close()
            raise

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.close()

    def check(self, topic: str, target: str, cluster: str) -> None:
        """Errors: UnusableTarget where it is another restore's."""
        now = self.now
        if now is not None and (now.topic, now.target, now.cluster) != (topic, target, cluster):
            raise UnusableTarget(
                f"{self._path} is of a restore of {now.topic} into {now.target} of the cluster {now.cluster}"
            )

    def put(self, restoring: Restoring) -> None:
        """Write it down."""
        told = {"format": _FORMAT, "version": _VERSION, **asdict(restoring)}
        self._files.replace(self._path, json.dumps(told, indent=1).encode() + b"\n")
        self.now = restoring

    def complete(self, restored: dict[int, int]) -> None:
        """Write down that all is there."""
        assert self.now is not None
        self.put(replace(self.now, restored={**self.now.restored, **restored}))

    def _read(self) -> Restoring | None:
        data = self._files.read(self._path)
        if data is None:
            return None
        try:
            told: dict[str, Any] = json.loads(data)
            if (told.pop("format"), told.pop("version")) != (_FORMAT, _VERSION):
                raise DamagedArchive(f"{self._path} is of a format that is not known here")
            producer_id, epoch = told.pop("producer")
            bases, restored = (
                {int(partition): int(value) for partition, value in told.pop(name).items()}
                for name in ("bases", "restored")
            )
            return Restoring(**told, producer=(producer_id, epoch), bases=bases, restored=restored)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DamagedArchive(f"{self._path} is damaged: {error!r}") from None


def default_path(inner: Path, cluster: str, target: str) -> Path:
    """The journal of a target where none is named, below an archive's inner folder."""
    return inner / "restores" / f"{re.sub(r'[^A-Za-z0-9_-]', '_', cluster)}@{target}.json"
