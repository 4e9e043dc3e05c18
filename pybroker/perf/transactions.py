"""Transactions of a producer, one after another, each of some duration."""

from __future__ import annotations

import time
from collections.abc import Callable

from confluent_kafka import KafkaException, Producer

from pybroker.cli.client.session import failed


class Transactions:
    """The transactions of one producer. Each begins with a record; the first one after `duration_s` ends it.

    `flush` waits for the records that were sent. Methods raise CommandError.
    """

    def __init__(
        self, producer: Producer, transactional_id: str, duration_s: float, timeout_s: float, flush: Callable[[], None]
    ) -> None:
        self._producer = producer
        self._id = transactional_id
        self._duration_s = duration_s
        self._timeout_s = timeout_s
        self._flush = flush
        self._began_s: float | None = None  # None: no transaction

    def open(self) -> None:
        """Fence earlier producers of the transactional id."""
        try:
            self._producer.init_transactions(self._timeout_s)
        except KafkaException as error:
            raise failed(error, self._id) from None

    def before_record(self) -> None:
        """Begin a transaction if there is none."""
        if self._began_s is None:
            self._producer.begin_transaction()
            self._began_s = time.perf_counter()

    def after_record(self) -> None:
        """Commit a transaction that is old enough."""
        if self._began_s is not None and time.perf_counter() - self._began_s >= self._duration_s:
            self.commit()

    def commit(self) -> None:
        """Commit the transaction, if there is one."""
        if self._began_s is None:
            return
        self._flush()
        try:
            self._producer.commit_transaction(self._timeout_s)
        except KafkaException as error:
            raise failed(error, self._id) from None
        self._began_s = None
