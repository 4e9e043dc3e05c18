"""`pybroker dump-log`: print the contents of files of a log directory, as Apache Kafka's kafka-dump-log does.

Options, text and exit codes are those of Kafka's tool. The exit code is 0 if each file can be read to its end, even if
files are damaged. It is 1 for a file that cannot be read to its end, which ends the dump, and for a bad command line.
The command only reads. It does not disturb a running broker, but does not show data that the broker still buffers.
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
#: How many characters are buffered before they are written.
_CHUNK = 1 << 16

#: In the order of precedence of Kafka's tool: if several are given, the first one wins.
_DECODERS: dict[str, tuple[str, Decoder]] = {
    "--offsets-decoder": ("commits and groups of __consumer_offsets", offsets_decoder),
    "--transaction-log-decoder": ("transactions of __transaction_state", transaction_log_decoder),
    "--cluster-metadata-decoder": ("records of the metadata log and its snapshots", metadata_decoder),
    "--remote-log-metadata-decoder": ("segments in remote storage of __remote_log_metadata", remote_log_decoder),
    "--share-group-state-decoder": ("share groups of __share_group_state", share_group_state_decoder),
}


def command_line() -> ArgumentParser:
    """Return the parser of the command line; the documentation site has a page made from its help."""
    parser = OfflineParser(
        prog="pybroker dump-log",
        description="Print the contents of files of a log directory:"
        " .log, .index, .timeindex, .txnindex, .snapshot, .checkpoint.",
    )
    parser.add_argument("--files", required=True, metavar="FILE,...", help="the files, separated by commas")
    parser.add_argument("--deep-iteration", action="store_true", help="also print the records of each batch")
    parser.add_argument("--print-data-log", action="store_true", help="also print keys and payloads of records")
    parser.add_argument("--skip-record-metadata", action="store_true", help="print only keys and payloads of records")
    parser.add_argument(
        "--max-bytes", type=int, default=_MAX_INT, metavar="SIZE", help="read at most SIZE bytes of each segment"
    )
    parser.add_argument(
        "--index-sanity-check",
        action="store_true",
        help="only check whether the broker would keep the index at its start",
    )
    parser.add_argument("--verify-index-only", action="store_true", help="print only errors of the index")
    parser.add_argument(
        "--max-message-size",
        type=int,
        default=5 << 20,
        metavar="SIZE",
        help="the largest batch that an index entry may point at",
    )
    for option, (what, _) in _DECODERS.items():
        parser.add_argument(option, action="store_true", help=f"show {what}")
    for which in ("key", "value"):
        parser.add_argument(
            f"--{which}-decoder-class",
            nargs="?",
            const=_STRING_DECODER,
            metavar="CLASS",
            help=f"how to print {which}s: one of {', '.join(CONVERTERS)}",
        )
    parser.add_argument("--json", action="store_true", help="print one JSON object a line: batches, records, entries")
    return parser


def _decoder(arguments: Namespace) -> Decoder | None:
    """Return the decoder of keys and payloads; None if they are not wanted. Raises DumpFailed for an unknown class."""
    for option, (_, decoder) in _DECODERS.items():
        if getattr(arguments, option[2:].replace("-", "_")):
            return decoder
    classes = (arguments.key_decoder_class, arguments.value_decoder_class)
    if not arguments.print_data_log and classes == (None, None):
        return None
    converters = []
    for name in classes:
        if name is not None and name not in CONVERTERS:
            raise DumpFailed(f"unknown decoder {name}; the decoders are {', '.join(CONVERTERS)}")
        converters.append(CONVERTERS[name or _STRING_DECODER])
    return plain_decoder(*converters)


def dump(paths: Sequence[str], segments: SegmentOptions, indexes: IndexOptions) -> Iterator[Event]:
    """Yield the contents of the files.

    Raises DumpFailed, RecordsError or OSError at a file that cannot be read to its end; this ends the dump.
    """
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
    """Buffered standard output. Problems go to standard error, after the buffered lines before them are written."""

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
    """Return the paths that --files names, as Java writes them: without double slashes."""
    names = files.split(",")
    while names and not names[-1]:
        names.pop()
    return [os.path.join("/" if name.startswith("/") else "", *filter(None, name.split("/"))) for name in names]


def main(argv: Sequence[str] | None = None) -> int:
    """Print a dump and return the exit code."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` is not a failure
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
