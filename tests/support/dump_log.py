"""Read the output of kafka-dump-log for recorded log directories (`*.dump.txt` under tests/data/logs).

`dump_with_both` runs that tool and ours on the same files.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pybroker import engine_process
from tests.support.java import JavaRunner
from tests.support.tools import MAIN_CLASSES

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


#: the files that the tools can read
DUMPED_SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".checkpoint")

#: their paths are one argument, which may have 128 KiB
FILES_OF_A_CALL = 200

#: our own words say why a record could not be decoded
_REASONS = re.compile(r"(?<=, skipping\. ).*")
_SCHEMA = re.compile(r"(?<=Snapshot failed schema validation: )(?!Snapshot contained).*")


def files_to_dump(directory: Path) -> list[str]:
    """Return a partition's files for --files: one string for each call, as long as Linux accepts."""
    found = [str(path) for path in sorted(directory.iterdir()) if path.suffix in DUMPED_SUFFIXES]
    return [",".join(found[at : at + FILES_OF_A_CALL]) for at in range(0, len(found), FILES_OF_A_CALL)]


def dump_with_both(java: JavaRunner, *arguments: str) -> str:
    """Run both tools, which must agree; return their output. Kafka's tool creates missing index files."""
    ours = subprocess.run(engine_process.command("tools.data.dump_log", arguments), capture_output=True, timeout=180)
    theirs = java.run(MAIN_CLASSES["kafka-dump-log"], *arguments)
    said, expected = (_REASONS.sub("", text) for text in (ours.stdout.decode("utf-8"), theirs.stdout))
    assert ours.returncode == theirs.exit_code
    if ours.returncode == 0:
        assert said == expected
        assert _blocks(ours.stderr.decode("utf-8")) == _blocks(theirs.stderr)
    else:
        assert (said, "\n") == (expected[: len(said)], said[-1])
        assert "\n" not in expected[len(said) :]  # Kafka may die in the middle of a line
        assert ours.stderr.count(b"\n") == 1
    return theirs.stdout


def _blocks(text: str) -> list[str]:
    """Return the problems that the end reports, a string for each file: Java keeps them in no particular order."""
    return sorted(re.split(r"^(?=\S)", _SCHEMA.sub("", text), flags=re.MULTILINE))
