"""Send lines to a topic with librdkafka's idempotent producer: in order within a partition, in bounded memory."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from pybroker.quiet_librdkafka import without_lines
from pybroker.ship.line_reader import LineReader, Parts
from pybroker.ship.lines import Line

_QUEUE_KBYTES = 16 * 1024
_QUEUE_LINES = 20_000
_BESIDE_LINE_BYTES = (
    40_000  # key, record and batch headers; with the default limit of a line this is the default limit of a topic
)

Report = Callable[[str], None]


class PropertyError(Exception):
    """librdkafka rejects a property; the text is its own."""


class DeliveryError(Exception):
    """Lines were not delivered; the text says why. `is_size`: a batch is larger than the topic allows."""

    def __init__(self, problem: str, *, is_size: bool = False) -> None:
        super().__init__(problem)
        self.is_size = is_size


@dataclass(frozen=True, slots=True)
class Target:
    """The topic that lines go to, and how they become records."""

    bootstrap: str
    topic: str
    max_line_bytes: int
    key_regex: re.Pattern[bytes] | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    key_separator: bytes | None = None
    null_marker: bytes | None = None
    reader: LineReader | None = None

    def parts(self, line: bytes) -> Parts:
        """Return the parts of the record of a line.

        A reader, if there is one, decides. Otherwise the first separator splits key and value; or the key is the match
        of the regular expression (its first group, if it has one) and the value is the whole line. The key is None when
        neither applies, and for the null marker. Errors: BadLine, from the reader.
        """
        if self.reader is not None:
            return self.reader(line)
        key, value = self._parts(line)
        return Parts(None if key == self.null_marker else key, None if value == self.null_marker else value, [])

    def _parts(self, line: bytes) -> tuple[bytes | None, bytes]:
        if self.key_separator is not None:
            before, separator, behind = line.partition(self.key_separator)
            return (before, behind) if separator else (None, line)
        found = self.key_regex and self.key_regex.search(line)
        return found[found.re.groups and 1] if found else None, line


class Sender:
    """One producer. Without a broker it buffers at most 16 MiB or 20,000 lines, and waits.

    timeout_ms: after this time a line that is not acknowledged has failed; 0: never.
    one_by_one: send batches of one line, so that a line that is too large for the topic does not block others.
    Errors: PropertyError.
    """

    def __init__(self, target: Target, report: Report, *, timeout_ms: int = 0, one_by_one: bool = False) -> None:
        self._target = target
        self._report = report
        self._one_by_one = one_by_one
        self._is_patient = not timeout_ms
        self.left_out = 0
        """The number of lines that the topic rejected because they are too large."""
        self.failure: DeliveryError | None = None
        self.trouble = ""
        """The current problem of the connection to the broker, in librdkafka's words."""
        largest = target.max_line_bytes + _BESIDE_LINE_BYTES
        properties: dict[str, object] = {
            "bootstrap.servers": target.bootstrap,
            "client.id": "pybroker-produce",
            "enable.idempotence": True,
            "partitioner": "murmur2_random",  # a key goes to the same partition as from Java clients
            "linger.ms": 20,
            "message.timeout.ms": timeout_ms,
            "message.max.bytes": largest,
            "queue.buffering.max.kbytes": max(_QUEUE_KBYTES, 2 * largest // 1024),
            "queue.buffering.max.messages": _QUEUE_LINES,
            "reconnect.backoff.max.ms": 2000,
            **target.properties,
            **({"batch.num.messages": 1} if one_by_one else {}),
            **without_lines(target.properties),
            "error_cb": self._on_error,
        }
        try:
            self._producer = Producer(properties)
        except KafkaException as error:
            raise PropertyError(error.args[0].str()) from None

    def offer(self, path: Path, line: Line, on_settled: Callable[[], None]) -> bool:
        """Accept a line, or return False when the buffer is full.

        It calls `on_settled` when the line is acknowledged, or is rejected as too large, which it also reports. Errors:
        BadLine.
        """
        on_delivery = partial(self._on_delivery, path, line.start, len(line.value), on_settled)
        try:
            key, value, headers = self._target.parts(line.value)
            self._producer.produce(self._target.topic, value, key, on_delivery=on_delivery, headers=headers)
        except BufferError:
            return False
        except KafkaException as error:
            if error.args[0].code() != KafkaError.MSG_SIZE_TOO_LARGE:
                self._fail(error.args[0])
                return False
            self._leave_out(path, line.start, len(line.value), on_settled)
        if line.cut_bytes:
            whole = len(line.value) + line.cut_bytes
            self._report(
                f"{path}: the line at byte {line.start} has {whole} bytes: sent without its last {line.cut_bytes}"
            )
        return True

    def wait(self, seconds: float) -> None:
        """Process acknowledgements; return after the first ones, at the latest after `seconds`."""
        self._producer.poll(seconds)

    def flush(self, seconds: float) -> int:
        """Wait at most `seconds` until all lines are acknowledged; return how many are not."""
        return self._producer.flush(seconds)

    def abandon(self) -> None:
        """Drop all lines that are not acknowledged."""
        self._producer.purge()

    def _on_delivery(
        self, path: Path, start: int, size: int, on_settled: Callable[[], None], error: KafkaError | None, _: Message
    ) -> None:
        if error is None:
            self.trouble = ""
            on_settled()
        elif error.code() == KafkaError.MSG_SIZE_TOO_LARGE and self._one_by_one:
            self._leave_out(path, start, size, on_settled)
        else:
            self._fail(error)

    def _leave_out(self, path: Path, start: int, size: int, on_settled: Callable[[], None]) -> None:
        self.left_out += 1
        self._report(
            f"{path}: the line at byte {start} is left out: {size} bytes exceed the limit of {self._target.topic}"
        )
        on_settled()

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            self._fail(error)
        elif error.code() == KafkaError._ALL_BROKERS_DOWN and not self.trouble:
            self.trouble = f"no broker answers at {self._target.bootstrap}"
            if self._is_patient:
                self._report(f"{self.trouble}: waiting")

    def _fail(self, error: KafkaError) -> None:
        if self.failure is None:
            problem = f"{self._target.topic}: {error.str()}"
            if error.code() == KafkaError._MSG_TIMED_OUT and self.trouble:
                problem = self.trouble
            self.failure = DeliveryError(problem, is_size=error.code() == KafkaError.MSG_SIZE_TOO_LARGE)
