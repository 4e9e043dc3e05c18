"""`pybroker verify`: check the log directories of a broker that is not running, and repair them on request.

Each line is a finding: file, position, offset, what is wrong, and whether records are lost. The exit code is 0 if
no problems (with --repair: after the repair), 1 if something is wrong, and 2 for a bad command line, a directory
that cannot be read or one that a broker uses. Notes, such as files that the next start removes, are not errors.

Programs can call `check_directory(path)`, which yields the same findings as values and takes no lock.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from config import ConfigError, load
from pybroker.cli.exit_codes import end
from runtime.progress import Progress
from storage.checkpoints import LOCK
from storage.directory_names import DirectoryKind, parse_name
from storage.errors import StorageError
from storage.fs import LOCAL
from storage.segment.files import LOG_SUFFIX, parse_file_name
from tools.command_line import OfflineParser
from tools.data.checks.directory import DataCheck, check_directory
from tools.data.checks.findings import Finding, Kind, Severity
from tools.data.checks.repair import Repair
from tools.errors import VerifyRefused

__all__ = ["Finding", "Kind", "Severity", "check_directory", "main"]


#: A repair can reveal more damage, such as in a log that a wrong log start offset had hidden.
_PASSES = 3


class _Parser(OfflineParser):
    usage_exit_code = 2


def command_line() -> OfflineParser:
    """Return the parser of the command line; the documentation site has a page made from its help."""
    parser = _Parser(
        prog="pybroker verify",
        description="Check the log directories of a broker that is not running, and repair them.",
    )
    parser.add_argument("directories", nargs="*", metavar="DIR", help="all log directories of one broker")
    parser.add_argument(
        "-c",
        "--config",
        metavar="FILE",
        help="the broker's server.properties; its log.dirs are checked if no DIR is given",
    )
    parser.add_argument("--deep", action="store_true", help="also decode the records of each batch")
    parser.add_argument("--repair", action="store_true", help="repair as a broker's recovery would, then check again")
    parser.add_argument(
        "--notes", action="store_true", help="also list notes, such as leftover files, which are not errors"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object a line")
    return parser


class _Run:
    """One check, or repair and check, of locked directories."""

    def __init__(self, paths: Sequence[str], arguments: Namespace) -> None:
        self._paths = paths
        self._json: bool = arguments.json
        self._deep: bool = arguments.deep
        self._notes: bool = arguments.notes

    def say(self, line: str, **fields: object) -> None:
        print(json.dumps(fields) if self._json else line, flush=True)

    def check(self) -> tuple[DataCheck, list[Finding]]:
        """Check the directories and print each finding as it is found."""
        partitions, total = _size(self._paths)
        progress = Progress("Checking", partitions, total)
        done = 0

        def more(size: int) -> None:
            nonlocal done
            done += size
            progress.show(check.logs_done, done)

        check = DataCheck(self._paths, deep=self._deep, progress=more)
        found = []
        for finding in check.findings():
            progress.end()
            if finding.severity is not Severity.NOTE or finding.kind is Kind.NOT_GIVEN or self._json or self._notes:
                self.say(str(finding), type="finding", **finding.to_json())
            found.append(finding)
        progress.end()
        wrong = [each for each in found if each.severity is not Severity.NOTE]
        lost = sum(each.loses_records for each in wrong)
        self.say(
            f"{_count(partitions, 'partition')}, {total >> 20} MB: "
            + (f"{_count(len(wrong), 'finding')}, {lost} with records lost" if wrong else "no problems")
            + (f" ({_count(len(found) - len(wrong), 'note')})" if len(found) > len(wrong) else ""),
            type="summary",
            partitions=partitions,
            bytes=total,
            findings=len(wrong),
            losses=lost,
        )
        return check, wrong

    def repair(self, check: DataCheck, findings: Sequence[Finding], config_path: str | None) -> bool:
        """Repair the findings and print each change; return whether there was any. Raises OSError, StorageError."""
        config, done = load(config_path), False
        for line in Repair(check, findings, config, time.time_ns() // 1_000_000).run():
            self.say(f"Repaired {line}", type="repair", what=line)
            done = True
        return done


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _size(paths: Sequence[str]) -> tuple[int, int]:
    """Return the number of partitions and the total size of their segments in bytes."""
    partitions, total = 0, 0
    for path in paths:
        for entry in LOCAL.list(path):
            if entry.is_directory and parse_name(entry.name)[0] is DirectoryKind.PARTITION:
                files = [(parse_file_name(each.name), each) for each in LOCAL.list(f"{path}/{entry.name}")]
                sizes = [each.size_bytes for name, each in files if name is not None and name[1] == LOG_SUFFIX]
                partitions += bool(sizes)
                total += sum(sizes)
    return partitions, total


@contextmanager
def _locked(path: str, *, writing: bool) -> Iterator[None]:
    """Lock a directory against brokers; without `writing`, an unwritable one is read without a lock.

    Raises VerifyRefused if a broker uses the directory.
    """
    lock_path = f"{path}/{LOCK}"
    there = LOCAL.exists(lock_path)
    handle = None
    try:
        handle = LOCAL.lock(lock_path)
    except OSError as error:
        if writing:
            raise VerifyRefused(f"{path}: cannot be written to: {error.strerror or error}") from None
    else:
        if handle is None:
            raise VerifyRefused(f"{path}: a broker is using it: stop the broker first")
    try:
        yield
    finally:
        if handle is not None:
            if not there:
                LOCAL.remove(lock_path)
            LOCAL.close(handle)


def _paths(arguments: Namespace) -> list[str]:
    """Return the directories without duplicates. Raises VerifyRefused, ConfigError, OSError."""
    paths = [path.rstrip("/") or "/" for path in arguments.directories]
    if not paths:
        if arguments.config is None:
            raise VerifyRefused("name the log directories, or a configuration with --config")
        config = load(arguments.config)
        paths = [path.rstrip("/") for path in (*config.log_dirs, config.metadata_log_dir)]
    for path in paths:
        if not os.path.isdir(path):
            raise VerifyRefused(f"{path}: there is no such directory")
    return list({os.path.realpath(path): path for path in paths}.values())


def main(argv: Sequence[str] | None = None) -> int:
    """Check directories and return the exit code."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    arguments = command_line().parse_args(argv)
    try:
        with ExitStack() as locks:
            paths = _paths(arguments)
            for path in paths:
                locks.enter_context(_locked(path, writing=arguments.repair))
            run = _Run(paths, arguments)
            check, found = run.check()
            for _ in range(_PASSES if arguments.repair else 0):
                if not found or not run.repair(check, found, arguments.config):
                    break
                check, found = run.check()
            return 1 if found else 0
    except ConfigError as error:
        for problem in error.problems:
            print(problem, file=sys.stderr)
    except (VerifyRefused, StorageError) as error:
        print(f"pybroker verify: {error}", file=sys.stderr)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"pybroker verify: {where}{error.strerror or error}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    end(main)
