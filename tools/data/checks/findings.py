"""The findings of a check of a data directory: as a line of text for people, as a JSON object for programs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """`LOSS`: records are lost, now or by the repair. `DAMAGE`: any other error. `NOTE`: not an error."""

    NOTE = "note"
    DAMAGE = "damage"
    LOSS = "loss"


class Kind(StrEnum):
    """The kind of file or object that a finding concerns; it decides what a repair does."""

    RECORDS = "records"
    CONTENT = "content"
    OFFSET_INDEX = "offset-index"
    TIME_INDEX = "time-index"
    TRANSACTION_INDEX = "transaction-index"
    PRODUCER_SNAPSHOT = "producer-snapshot"
    LEADER_EPOCHS = "leader-epochs"
    TOPIC_ID = "topic-id"
    LEFTOVER = "leftover"
    CHECKPOINT = "checkpoint"
    CLEAN_SHUTDOWN = "clean-shutdown"
    META_PROPERTIES = "meta-properties"
    BOOTSTRAP = "bootstrap"
    METADATA = "metadata"
    METADATA_SNAPSHOT = "metadata-snapshot"
    QUORUM_STATE = "quorum-state"
    TWIN = "twin"
    STRAY = "stray"
    MISSING = "missing"
    NOT_GIVEN = "not-given"
    REMOTE = "remote"


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding. `path`: a file or directory. `position`: in bytes, `offset`: of a record; each may be None."""

    path: str
    kind: Kind
    what: str
    severity: Severity = Severity.DAMAGE
    position: int | None = None
    offset: int | None = None

    @property
    def loses_records(self) -> bool:
        return self.severity is Severity.LOSS

    def __str__(self) -> str:
        places = []
        if self.position is not None:
            places.append(f"byte {self.position}")
        if self.offset is not None:
            places.append(f"offset {self.offset}")
        place = f"{', '.join(places)}: " if places else ""
        ends = {Severity.LOSS: " (records are lost)", Severity.DAMAGE: "", Severity.NOTE: " (not an error)"}
        return f"{self.path}: {place}{self.what}{ends[self.severity]}"

    def to_json(self) -> dict[str, object]:
        """Return the finding as a JSON object, for programs."""
        found: dict[str, object] = {"path": self.path, "kind": str(self.kind), "severity": str(self.severity)}
        if self.position is not None:
            found["position"] = self.position
        if self.offset is not None:
            found["offset"] = self.offset
        return {**found, "losesRecords": self.loses_records, "what": self.what}
