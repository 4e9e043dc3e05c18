"""Produce a number of records, as fast as possible or at a given rate."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import count, repeat
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from pybroker.cli.client.errors import CommandError, UsageError
from pybroker.cli.client.session import Session, failed
from pybroker.perf.latencies import Latencies
from pybroker.perf.transactions import Transactions

#: Length of a reported window in seconds, unless the caller gives another.
_WINDOW_S = 5.0
_MB = 1 << 20
#: Records between two readings of the clock.
_STRIDE = 100


class Produced:
    """The result of a run, or of a window of it."""

    def __init__(self, began_s: float) -> None:
        self.began_s = began_s
        self.ended_s = began_s
        self.bytes = 0
        self.latencies = Latencies()

    def add(self, size: int, latency_ms: float) -> None:
        self.bytes += size
        self.latencies.add(latency_ms)

    @property
    def records_per_s(self) -> float:
        return self.latencies.count / max(self.ended_s - self.began_s, 1e-9)

    @property
    def mb_per_s(self) -> float:
        return self.bytes / _MB / max(self.ended_s - self.began_s, 1e-9)

    def line(self, *, whole: bool, name: str = "records") -> str:
        """Return the result in the format of kafka-producer-perf-test; `whole`: the last line, with percentiles."""
        digits = 2 if whole else 1
        text = (
            f"{self.latencies.count} {name} sent, {self.records_per_s:.{6 if whole else 1}f} records/sec "
            f"({self.mb_per_s:.2f} MB/sec), {self.latencies.average_ms:.{digits}f} ms avg latency, "
            f"{self.latencies.max_ms:.{digits}f} ms max latency"
        )
        if whole:
            shares = self.latencies.percentiles_ms(0.5, 0.95, 0.99, 0.999)
            names = ("50th", "95th", "99th", "99.9th")
            text += ", " + ", ".join(f"{ms:.0f} ms {name}" for ms, name in zip(shares, names, strict=True))
        return text + "."

    def row(self) -> dict[str, object]:
        """Return the result for --json."""
        return {
            "records": self.latencies.count,
            "bytes": self.bytes,
            "seconds": round(self.ended_s - self.began_s, 3),
            "records_per_s": round(self.records_per_s, 1),
            "mb_per_s": round(self.mb_per_s, 3),
            **self.latencies.row(),
        }


def random_payloads(size: int, seed: int = 0) -> list[bytes]:
    """Return some hundred values of `size` capital letters, like Kafka's tool. They compress somewhat."""
    made = random.Random(seed)
    return [bytes(made.choices(range(65, 91), k=size)) for _ in range(max(1, min(200, (1 << 22) // max(size, 1))))]


def monotonic_payloads() -> Iterator[bytes]:
    """Yield the values 0, 1, 2, ... as decimal numbers, without end."""
    return (b"%d" % number for number in count())


def record_keys(distribution: str, limit: int, seed: int = 0) -> Iterator[bytes | None]:
    """Yield the keys of records without end, as Kafka's tool makes them: decimal numbers below `limit`.

    `distribution`: "none" yields no keys, "range" each number in turn, "random" any number.
    """
    if distribution == "none":
        yield from repeat(None)
    if distribution == "range":
        yield from (b"%d" % (number % limit) for number in count())
    made = random.Random(seed)
    while True:
        yield b"%d" % made.randrange(limit)


class Load:
    """Sends records of `payloads`, with these keys, to a topic and passes each window to `report`.

    `steady` is the result without the first `warmup` records. `transaction_s` is the duration of transactions, which
    the property transactional.id requires.
    """

    def __init__(
        self,
        session: Session,
        topic: str,
        payloads: Iterator[bytes],
        properties: Mapping[str, object],
        keys: Iterator[bytes | None] | None = None,
        *,
        warmup: int = 0,
        transaction_s: float | None = None,
    ) -> None:
        self._session = session
        self._topic = topic
        self._payloads = payloads
        self._keys = keys or repeat(None)
        settings = {**session.properties, **properties}
        try:
            self._producer = Producer(settings)
        except KafkaException as error:
            raise UsageError(error.args[0].str()) from None
        self._transactions: Transactions | None = None
        if transaction_s is not None:
            name = str(settings["transactional.id"])
            self._transactions = Transactions(
                self._producer, name, transaction_s, session.timeout_s, self._wait_for_all
            )
        self._whole = self._window = Produced(time.perf_counter())
        self._warmup = warmup
        self.steady: Produced | None = None
        self._failure: CommandError | None = None

    def run(
        self,
        records: int,
        throughput: float,
        report: Callable[[Produced], None],
        show: Callable[[int], None],
        window_s: float = _WINDOW_S,
    ) -> Produced:
        """Send `records` records, at most `throughput` a second (negative: no limit). Raises CommandError."""
        transactions = self._transactions
        if transactions is not None:
            transactions.open()
        began = time.perf_counter()
        self._whole, self._window = Produced(began), Produced(began)
        for number in range(records):
            if number == self._warmup > 0:
                self.steady = Produced(time.perf_counter())
            if transactions is not None:
                transactions.before_record()
            self._send(next(self._payloads), next(self._keys))
            if transactions is not None:
                transactions.after_record()
            if number % _STRIDE and throughput < 0:
                continue
            now = time.perf_counter()
            self._producer.poll(0)
            if throughput > 0 and (ahead := number / throughput - (now - began)) > 0:
                self._rest(ahead)
            show(self._whole.latencies.count)
            self._check(now, report, window_s)
        self._wait_for_all(show)
        if transactions is not None:
            transactions.commit()
        self._whole.ended_s = time.perf_counter()
        if self.steady is not None:
            self.steady.ended_s = self._whole.ended_s
        return self._whole

    def _rest(self, seconds: float) -> None:
        until = time.perf_counter() + seconds
        while (left := until - time.perf_counter()) > 0:
            self._producer.poll(min(left, 0.1))

    def _wait_for_all(self, show: Callable[[int], None] = lambda _: None) -> None:
        while len(self._producer):
            self._producer.poll(0.1)
            show(self._whole.latencies.count)
            self._session.admin.poll(0)
            self._session.check()
        self._raise()

    def _check(self, now: float, report: Callable[[Produced], None], window_s: float) -> None:
        self._raise()
        if now - self._window.began_s >= window_s:
            self._window.ended_s = now
            report(self._window)
            self._window = Produced(now)

    def _send(self, payload: bytes, key: bytes | None) -> None:
        while True:
            try:
                self._producer.produce(self._topic, payload, key, on_delivery=self._delivered)
                return
            except BufferError:
                self._producer.poll(0.1)
                self._raise()
                self._session.check()

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failure = self._failure or failed(KafkaException(error), self._topic)
            return
        latency: Any = message.latency()
        size, latency_ms = len(message), (latency or 0.0) * 1000
        self._whole.add(size, latency_ms)
        self._window.add(size, latency_ms)
        if self.steady is not None and self._whole.latencies.count > self._warmup:
            self.steady.add(size, latency_ms)

    def _raise(self) -> None:
        if self._failure is not None:
            raise self._failure
