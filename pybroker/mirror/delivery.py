"""The producer of the copy. After a failed record it sends nothing more, so no record gets the offset of another.

A producer that fails for good is replaced: what it did not send is dropped, and the caller begins again at the ends of
the copy.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer, ThrottleEvent

from pybroker.cli.client.errors import UsageError
from pybroker.cli.client.session import Place, Session, failed

_DRAIN_S = 65.0  # after librdkafka's socket.timeout.ms no request is on its way
#: Errors of records that a failed producer has dropped: they say nothing about the partition.
DROPPED = {
    *(KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT, KafkaError._FATAL),
    KafkaError._GAPLESS_GUARANTEE,
}


class Delivery:
    """Sends records, with acknowledgements to `on_delivery`.

    Args:
        singly: send batches of one record, for topics whose limit a larger batch would exceed.
    """

    def __init__(
        self, target: Session, on_delivery: Callable[[KafkaError | None, Message], None], *, singly: bool = False
    ) -> None:
        self._on_delivery = on_delivery
        self._settings: dict[str, Any] = {
            "compression.type": "lz4",
            "linger.ms": 20,
            "message.max.bytes": 1_000_000_000,
            "queue.buffering.max.kbytes": 262_144,
            **target.properties,
            "allow.auto.create.topics": False,
            "enable.idempotence": True,
            "enable.gapless.guarantee": True,
            # So that fewer records are on their way behind a rejected one. The broker refuses them by their sequence.
            "max.in.flight.requests.per.connection": 1,
            "message.timeout.ms": 0,  # no timeout: a record that is dropped would leave a gap
            **({"batch.num.messages": 1} if singly else {}),
            "throttle_cb": self._on_throttle,
        }
        self.is_broken = False
        """A record failed: nothing more may be sent before `renew`."""
        self.moved_s = time.monotonic()
        """When a record was last acknowledged, or the first one was sent; in the future while a quota throttles."""
        self._producer = self._new()

    def offer(self, place: Place, key: Any, value: Any, timestamp: int, headers: Any) -> bool:
        """Accept a record; return False if the queue is full or the producer is broken. Raises CommandError."""
        if self.is_broken:
            return False
        if not len(self._producer):
            self.moved_s = time.monotonic()
        topic, partition = place
        try:
            self._producer.produce(
                topic, value, key, partition, on_delivery=self._delivered, timestamp=timestamp, headers=headers
            )
        except BufferError:
            return False
        except KafkaException as error:
            if error.args[0].code() not in DROPPED:
                raise failed(error, f"{topic}-{partition}") from None
            self.is_broken = True
            return False
        return True

    def poll(self, timeout_s: float) -> None:
        """Process acknowledgements."""
        try:
            self._producer.poll(timeout_s)
        except KafkaException:  # the producer has failed for good; the records' errors say why
            self.is_broken = True

    def drain(self) -> None:
        """Drop what was not sent, and wait for what was: every record gets its acknowledgement or its error."""
        deadline = time.monotonic() + _DRAIN_S
        while len(self._producer) and time.monotonic() < deadline:
            self._producer.purge(in_flight=False)  # repeated, as retries put records back
            self.poll(0.1)
        self._producer.purge()
        self.poll(0)

    def renew(self) -> None:
        """Begin with a new producer, after `drain`."""
        self._producer = self._new()
        self.is_broken = False
        self.moved_s = time.monotonic()

    def close(self, timeout_s: float) -> None:
        """Deliver what is pending, as far as that takes at most `timeout_s`."""
        with suppress(KafkaException):
            self._producer.flush(timeout_s)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.moved_s = max(self.moved_s, time.monotonic())
        else:
            self.is_broken = True
        self._on_delivery(error, message)

    def _on_throttle(self, event: ThrottleEvent) -> None:
        self.moved_s = max(self.moved_s, time.monotonic() + event.throttle_time)

    def _new(self) -> Producer:
        try:
            return Producer(self._settings)
        except KafkaException as error:
            raise UsageError(error.args[0].str()) from None
