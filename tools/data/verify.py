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
from itertools import chain
from typing import TYPE_CHECKING

from config import ConfigError, load
from pybroker.cli.exit_codes import end
from remote.errors import RemoteStorageError
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

if TYPE_CHECKING:
    from tools.data.checks.remote import RemoteCheck

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
    parser.add_argument(
        "--remote",
        action="store_true",
        help="also check the segments in remote storage, which --config names; with --deep their records",
    )
    parser.add_argument("--repair", action="store_true", help="repair as a broker's recovery would, then check again")
    parser.add_argument(
        "--notes", action="store_true", help="also list notes, such as leftover files, which are not errors"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object a line")
    return parser


class _Remote:
    """The remote storage of a configuration. Raises VerifyRefused if it has none that can be used."""

    def __init__(self, config_path: str | None) -> None:
        from config.tiering import storage_settings  # most brokers have no remote storage
        from remote.configured import layout_in, listing_path, store_of
        from remote.errors import SettingError
        from remote.storage_settings import read_settings

        if config_path is None:
            raise VerifyRefused("--remote needs --config, which names the remote storage")
        class_name, settings, prefix = storage_settings(load(config_path))
        try:
            chosen = read_settings(class_name, settings, prefix)
            self._store = store_of(chosen, prefix)
        except SettingError as error:
            raise VerifyRefused(f"{config_path}: {error}") from None
        self._layout = layout_in(self._store, chosen)
        self._path = listing_path(chosen)

    def check(self, directories: Sequence[str], *, deep: bool) -> RemoteCheck:
        from tools.data.checks.remote import RemoteCheck

        return RemoteCheck(directories, self._layout, self._store, self._path, deep=deep)

    def repair(self, check: RemoteCheck) -> Iterator[tuple[str, bool]]:
        """Upload what is damaged; yield a line for each copy, and whether it is repaired."""
        from tools.data.checks.remote_repair import repair_copies

        return repair_copies(self._layout, check.damaged)


class _Run:
    """One check, or repair and check, of locked directories."""

    def __init__(self, paths: Sequence[str], arguments: Namespace) -> None:
        self._paths = paths
        self._json: bool = arguments.json
        self._deep: bool = arguments.deep
        self._notes: bool = arguments.notes
        self._remote = _Remote(arguments.config) if arguments.remote else None
        self._remote_check: RemoteCheck | None = None

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
        findings = check.findings()
        if self._remote is not None:
            self._remote_check = self._remote.check(self._paths, deep=self._deep)
            findings = chain(findings, self._remote_check.findings())
        for finding in findings:
            progress.end()
            if finding.severity is not Severity.NOTE or finding.kind is Kind.NOT_GIVEN or self._json or self._notes:
                self.say(str(finding), type="finding", **finding.to_json())
            found.append(finding)
        progress.end()
        wrong = [each for each in found if each.severity is not Severity.NOTE]
        lost = sum(each.loses_records for each in wrong)
        self.say(
            f"{_count(partitions, 'partition')}, {total >> 20} MB{self._checked()}: "
            + (f"{_count(len(wrong), 'finding')}, {lost} with records lost" if wrong else "no problems")
            + (f" ({_count(len(found) - len(wrong), 'note')})" if len(found) > len(wrong) else ""),
            type="summary",
            partitions=partitions,
            bytes=total,
            findings=len(wrong),
            losses=lost,
        )
        return check, wrong

    def _checked(self) -> str:
        return "" if self._remote_check is None else f", {_count(self._remote_check.checked, 'remote segment')}"

    def repair(self, check: DataCheck, findings: Sequence[Finding], config_path: str | None) -> bool:
        """Repair the findings and print each change; return whether there was any. Raises OSError, StorageError."""
        config, done = load(config_path), False
        for line in Repair(check, findings, config, time.time_ns() // 1_000_000).run():
            self.say(f"Repaired {line}", type="repair", what=line)
            done = True
        if self._remote is not None and self._remote_check is not None:
            for line, is_repaired in self._remote.repair(self._remote_check):
                what = "Repaired" if is_repaired else "Not repaired"
                self.say(f"{what} {line}", type="repair" if is_repaired else "refusal", what=line)
                done |= is_repaired
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
    except (VerifyRefused, StorageError, RemoteStorageError) as error:
        print(f"pybroker verify: {error}", file=sys.stderr)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"pybroker verify: {where}{error.strerror or error}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    end(main)
