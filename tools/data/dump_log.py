"""`pybroker dump-log`: print what is in files of a log directory, as Apache Kafka's kafka-dump-log does.

The same options, the same text and the same exit codes: 0 also for damaged files that can be read to their end, 1 for
one that cannot (which ends the dump) and for a bad command line. Files are only read; a running broker is not
disturbed, but what it has not written yet is not seen.
"""

from __future__ import annotations

import os
import signal
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Sequence

from protocol.records.errors import RecordsError
from pybroker.cli.exit_codes import end
from tools.command_line import OfflineParser
from tools.data.decoders import (
    CONVERTERS,
    Decoder,
    metadata_decoder,
    offsets_decoder,
    plain_decoder,
    share_group_state_decoder,
    transaction_log_decoder,
)
from tools.data.dump import json_lines, text_lines
from tools.data.dump.events import Event, FileStart, Note
from tools.data.dump.indexes import (
    IndexErrors,
    IndexOptions,
    dump_offset_index,
    dump_time_index,
)
from tools.data.dump.remote_log import remote_log_decoder
from tools.data.dump.segment import Gaps, SegmentOptions, dump_segment
from tools.data.dump.small_files import dump_snapshot, dump_transaction_index
from tools.errors import DumpFailed

_MAX_INT = (1 << 31) - 1
_STRING_DECODER = "org.apache.kafka.tools.api.StringDecoder"
#: Characters that are gathered before they are written.
_CHUNK = 1 << 16

#: In the order in which Kafka's tool looks at them: the first that is given counts.
_DECODERS: dict[str, tuple[str, Decoder]] = {
    "--offsets-decoder": ("commits and groups of __consumer_offsets", offsets_decoder),
    "--transaction-log-decoder": ("transactions of __transaction_state", transaction_log_decoder),
    "--cluster-metadata-decoder": ("records of the metadata log and its snapshots", metadata_decoder),
    "--remote-log-metadata-decoder": ("segments in remote storage of __remote_log_metadata", remote_log_decoder),
    "--share-group-state-decoder": ("share groups of __share_group_state", share_group_state_decoder),
}


def command_line() -> ArgumentParser:
    """The command line, whose help is also a page of the site."""
    parser = OfflineParser(
        prog="pybroker dump-log",
        description="Print what is in files of a log directory:"
        " .log, .index, .timeindex, .txnindex, .snapshot, .checkpoint.",
    )
    parser.add_argument("--files", required=True, metavar="FILE,...", help="the files, with commas between them")
    parser.add_argument("--deep-iteration", action="store_true", help="the records of each batch too")
    parser.add_argument("--print-data-log", action="store_true", help="keys and payloads of records too")
    parser.add_argument("--skip-record-metadata", action="store_true", help="of records only keys and payloads")
    parser.add_argument("--max-bytes", type=int, default=_MAX_INT, metavar="SIZE", help="only so much of each segment")
    parser.add_argument("--index-sanity-check", action="store_true", help="only whether a start would keep the index")
    parser.add_argument("--verify-index-only", action="store_true", help="only what is wrong with the index")
    parser.add_argument(
        "--max-message-size", type=int, default=5 << 20, metavar="SIZE", help="the largest batch that an index may name"
    )
    for option, (what, _) in _DECODERS.items():
        parser.add_argument(option, action="store_true", help=f"show {what}")
    for which in ("key", "value"):
        parser.add_argument(
            f"--{which}-decoder-class",
            nargs="?",
            const=_STRING_DECODER,
            metavar="CLASS",
            help=f"how to show {which}s: one of {', '.join(CONVERTERS)}",
        )
    parser.add_argument("--json", action="store_true", help="an object a line: batches, records, entries")
    return parser


def _decoder(arguments: Namespace) -> Decoder | None:
    """What shows keys and payloads; None where they are not wanted. DumpFailed: a class that is none of ours."""
    for option, (_, decoder) in _DECODERS.items():
        if getattr(arguments, option[2:].replace("-", "_")):
            return decoder
    classes = (arguments.key_decoder_class, arguments.value_decoder_class)
    if not arguments.print_data_log and classes == (None, None):
        return None
    converters = []
    for name in classes:
        if name is not None and name not in CONVERTERS:
            raise DumpFailed(f"there is no decoder {name}: there are {', '.join(CONVERTERS)}")
        converters.append(CONVERTERS[name or _STRING_DECODER])
    return plain_decoder(*converters)


def dump(paths: Sequence[str], segments: SegmentOptions, indexes: IndexOptions) -> Iterator[Event]:
    """What is in the files. DumpFailed, RecordsError, OSError: the dump ends at a file that cannot be read on."""
    gaps, errors = Gaps(), IndexErrors()
    for path in paths:
        yield FileStart(path)
        _, dot, suffix = os.path.basename(path).rpartition(".")
        if not dot:
            suffix = ""
        if suffix in ("log", "checkpoint"):
            yield from dump_segment(path, segments, gaps)
        elif suffix == "index":
            yield from dump_offset_index(path, indexes, errors)
        elif suffix == "timeindex":
            yield from dump_time_index(path, indexes, errors)
        elif suffix == "snapshot":
            yield from dump_snapshot(path)
        elif suffix == "txnindex":
            yield from dump_transaction_index(path)
        else:
            yield Note(f"Ignoring unknown file {path}", problem=True)
    yield from errors.report()
    yield from gaps.report()


class _Output:
    """Standard output, written in large pieces; problems go to standard error, after what came before them."""

    def __init__(self, line: Callable[[Event], str], *, in_line: bool) -> None:
        self._line = line
        self._in_line = in_line
        self._lines: list[str] = []
        self._size = 0

    def write(self, event: Event) -> None:
        text = self._line(event)
        if isinstance(event, Note) and event.problem and not self._in_line:
            self.flush()
            print(text, file=sys.stderr, flush=True)
            return
        self._lines.append(text)
        self._size += len(text)
        if self._size >= _CHUNK:
            self.flush()

    def flush(self) -> None:
        if self._lines:
            sys.stdout.buffer.write("".join(f"{text}\n" for text in self._lines).encode("utf-8", "replace"))
            self._lines, self._size = [], 0
        sys.stdout.buffer.flush()


def _paths(files: str) -> list[str]:
    """The paths that --files names, as Java writes them: without doubled slashes."""
    names = files.split(",")
    while names and not names[-1]:
        names.pop()
    return [os.path.join("/" if name.startswith("/") else "", *filter(None, name.split("/"))) for name in names]


def main(argv: Sequence[str] | None = None) -> int:
    """Print a dump; returns the exit code."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` is no failure
    arguments = command_line().parse_args(argv)
    output = _Output(json_lines.line if arguments.json else text_lines.line, in_line=arguments.json)
    try:
        decoder = _decoder(arguments)
        segments = SegmentOptions(
            deep=arguments.deep_iteration or decoder is not None,
            decoder=decoder,
            with_metadata=not arguments.skip_record_metadata,
            max_bytes=arguments.max_bytes,
        )
        indexes = IndexOptions(arguments.index_sanity_check, arguments.verify_index_only, arguments.max_message_size)
        for event in dump(_paths(arguments.files), segments, indexes):
            output.write(event)
    except (DumpFailed, RecordsError, OSError) as error:
        output.flush()
        reason = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.strerror else error
        print(f"pybroker dump-log: {reason}", file=sys.stderr)
        return 1
    output.flush()
    return 0


if __name__ == "__main__":
    end(main)
