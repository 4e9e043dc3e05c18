"""Read the output of kafka-dump-log for recorded log directories (`*.dump.txt` under tests/data/logs)."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

LOGS = Path(__file__).resolve().parent.parent / "data" / "logs"

_FIELD = re.compile(r"(\w+): (\S+)")


@dataclass(slots=True)
class DumpedEntry:
    """A batch or a message of an old format: the fields of its line, and those of its records' lines."""

    fields: dict[str, str]
    records: list[dict[str, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class DumpedFile:
    path: Path
    entries: list[DumpedEntry]
    lines: list[str]


def dump_files() -> list[Path]:
    """Return all dumps of whole partition directories."""
    return sorted(LOGS.glob("**/*.dump.txt"))


def dumped_logs(dump: Path) -> Iterator[DumpedFile]:
    """Yield each `.log` file that `dump` describes, with its entries."""
    for file in dumped(dump):
        if file.path.suffix == ".log":
            yield file


def dumped(dump: Path) -> Iterator[DumpedFile]:
    """Yield each file that `dump` describes."""
    current: DumpedFile | None = None
    for line in dump.read_text(encoding="utf-8").splitlines():
        if line.startswith("Dumping "):
            if current:
                yield current
            current = DumpedFile(dump.parent / line[len("Dumping ") :].strip(), [], [])
        elif current is None:
            continue
        else:
            current.lines.append(line)
            if line.startswith("| offset: ") and current.entries:
                current.entries[-1].records.append(_record_fields(line))
            elif line.startswith(("baseOffset: ", "offset: ")) and " position: " in line and " crc: " in line:
                current.entries.append(DumpedEntry(dict(_FIELD.findall(line))))
    if current:
        yield current


def _record_fields(line: str) -> dict[str, str]:
    head, found, payload = line.partition(" payload: ")
    head, key_found, key = head.partition(" key: ")
    headers = re.search(r"headerKeys: \[(.*?)\]", head)
    fields = dict(_FIELD.findall(re.sub(r"headerKeys: \[.*?\]", "", head)))
    if found:
        fields["payload"] = payload
    if key_found:
        fields["key"] = key
    if headers:
        fields["headerKeys"] = headers.group(1)
    return fields
