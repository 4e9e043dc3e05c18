"""Dump files with pybroker dump-log and kafka-dump-log, and compare the output."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from pybroker import engine_process
from tests.support.java import JavaRunner
from tests.support.tools import MAIN_CLASSES

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
