"""The journal of a restore, by which the next attempt resumes and recognizes the records that were restored.

The journal is written before the first row. Row n of a partition goes to the offset `bases[partition]` + n. The topic
itself shows which rows it has already (isolated/topic_restorer.py).
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
class RestoreState:
    """A restore of `topic` into `target`, a topic of `cluster`. All its attempts use one producer identity.

    `bases` maps partitions to offsets; `restored` counts, by partition, the rows after the last complete attempt.
    """

    topic: str
    target: str
    cluster: str
    producer: tuple[int, int]
    bases: dict[int, int] = field(default_factory=dict)
    restored: dict[int, int] = field(default_factory=dict)


class Journal:
    """The journal file of one restore, locked by this process. All methods raise OSError."""

    def __init__(self, path: Path, files: Files | None = None) -> None:
        """Lock and read the journal. Errors: ArchiveBusy; DamagedArchive when the file is no journal."""
        self._path = path
        self._files = Files() if files is None else files
        self._files.make_directory(path.parent)
        self._lock = Lock(path.with_name(f"{path.name}.lock"))
        try:
            self.current = self._read()
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
        """Check that the journal belongs to this restore. Errors: UnusableTarget when it belongs to another one."""
        current = self.current
        if current is not None and (current.topic, current.target, current.cluster) != (topic, target, cluster):
            raise UnusableTarget(
                f"{self._path} belongs to a restore of {current.topic} into {current.target}"
                f" of the cluster {current.cluster}"
            )

    def put(self, state: RestoreState) -> None:
        """Write the state of the restore to the file."""
        fields = {"format": _FORMAT, "version": _VERSION, **asdict(state)}
        self._files.replace(self._path, json.dumps(fields, indent=1).encode() + b"\n")
        self.current = state

    def complete(self, restored: dict[int, int]) -> None:
        """Record that the restore is complete."""
        assert self.current is not None
        self.put(replace(self.current, restored={**self.current.restored, **restored}))

    def _read(self) -> RestoreState | None:
        data = self._files.read(self._path)
        if data is None:
            return None
        try:
            fields: dict[str, Any] = json.loads(data)
            if (fields.pop("format"), fields.pop("version")) != (_FORMAT, _VERSION):
                raise DamagedArchive(f"{self._path} has an unknown format")
            producer_id, epoch = fields.pop("producer")
            bases, restored = (
                {int(partition): int(value) for partition, value in fields.pop(name).items()}
                for name in ("bases", "restored")
            )
            return RestoreState(**fields, producer=(producer_id, epoch), bases=bases, restored=restored)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise DamagedArchive(f"{self._path} is damaged: {error!r}") from None


def default_path(inner: Path, cluster: str, target: str) -> Path:
    """Return the default path of the journal of a target, below the inner folder of an archive."""
    return inner / "restores" / f"{re.sub(r'[^A-Za-z0-9_-]', '_', cluster)}@{target}.json"
