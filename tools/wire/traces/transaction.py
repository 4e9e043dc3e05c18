"""Two transactions, one committed and one aborted: producer, coordinator, markers, and the consumers' view."""

from __future__ import annotations

import time
from collections.abc import Generator

from protocol.messages.end_txn import END_TXN
from protocol.messages.fetch import FETCH, FetchPartition, FetchTopic
from protocol.messages.find_coordinator import FIND_COORDINATOR
from protocol.messages.init_producer_id import INIT_PRODUCER_ID
from protocol.messages.produce import PRODUCE
from tools.data.decoders import transaction_log_decoder
from tools.wire.traces.client import (
    Client,
    Exchange,
    TraceFailed,
    row,
)
from tools.wire.traces.files import (
    batch_positions,
    batch_step,
    dumped,
    segment,
)
from tools.wire.traces.stage import (
    TOPIC,
    Stage,
    batch,
    topic_data,
)
from tools.wire.traces.steps import Step

_TRANSACTIONAL_ID = "billing"
_READ_COMMITTED = 1
_WAIT_S = 30


def trace() -> Generator[Step, None, None]:
    """Yield the steps."""
    with Stage() as stage:
        client, reader = stage.client("producer"), stage.client("consumer")
        topic_id = client.topic_id(TOPIC)
        found = client.ask(FIND_COORDINATOR, key_type=1, coordinator_keys=[_TRANSACTIONAL_ID])
        yield from found.steps("producer", "Which broker coordinates the transactional id?")
        begun = client.ask(INIT_PRODUCER_ID, transactional_id=_TRANSACTIONAL_ID, transaction_timeout_ms=60_000)
        yield from begun.steps(
            "producer", answer_about="A producer id; its epoch fences earlier producers with this transactional id."
        )
        producer = (begun.answer.producer_id, begun.answer.producer_epoch)
        log = segment(stage.partition())
        for value, committed in (("paid", True), ("refused", False)):
            # each transaction has its own epoch, and its sequence numbers start at 0 (KIP-890)
            records = batch(value, sequence=0, producer=producer, transactional=True)
            written = client.ask(
                PRODUCE,
                transactional_id=_TRANSACTIONAL_ID,
                acks=-1,
                timeout_ms=30_000,
                topic_data=topic_data(topic_id, records),
            )
            yield from written.steps("producer", "The first records add the partition to the transaction (KIP-890).")
            position = batch_positions(log)[-1]
            yield batch_step(log, position, f"append: the batch in {log.name}, from byte {position} on", "")
            yield _watermarks_step("LSO while the transaction is open", _fetched(reader, topic_id))
            ended = client.ask(
                END_TXN,
                transactional_id=_TRANSACTIONAL_ID,
                producer_id=producer[0],
                producer_epoch=producer[1],
                committed=committed,
            )
            yield from ended.steps("producer", answer_about="The epoch for the next transaction.")
            producer = (ended.answer.producer_id, ended.answer.producer_epoch)
            fetched = _until_ended(reader, topic_id)
            position = batch_positions(log)[-1]
            what = "COMMIT" if committed else "ABORT"
            about = "A control batch, marked in its attributes: consumers do not pass it to applications."
            yield batch_step(log, position, f"marker: {what} in {log.name}, from byte {position} on", about)
            yield _watermarks_step(f"LSO after the {what} marker", fetched)
        yield from fetched.steps(
            "consumer",
            "A read_committed consumer: it skips the aborted transactions that the answer lists.",
        )
        yield Step("append", "append: the output of pybroker dump-log", "", tuple(dumped(log)))
        stage.broker.pause()
        index = log.with_suffix(".txnindex")
        about = "Version, producer, first and last offset, LSO. Only aborted transactions have an entry."
        yield Step("index", f"index entries: {index.name}", about, tuple(dumped(index)))
        state = segment(stage.partition("__transaction_state-0"))
        about = "The coordinator's states, shown by pybroker dump-log --transaction-log-decoder."
        rows = tuple(dumped(state, transaction_log_decoder, records_only=True))
        yield Step("append", "append: the transactions in __transaction_state", about, rows)


def _fetched(client: Client, topic_id: bytes) -> Exchange:
    partition = FetchPartition(fetch_offset=0, partition_max_bytes=1 << 20)
    topic = FetchTopic(topic=TOPIC, topic_id=topic_id, partitions=[partition])
    return client.ask(FETCH, max_wait_ms=0, min_bytes=0, isolation_level=_READ_COMMITTED, topics=[topic])


def _until_ended(client: Client, topic_id: bytes) -> Exchange:
    """Fetch until the marker is in the log. The coordinator may write it after it answered EndTxn."""
    until_s = time.monotonic() + _WAIT_S
    while True:
        exchange = _fetched(client, topic_id)
        partition = exchange.answer.responses[0].partitions[0]
        if partition.last_stable_offset == partition.high_watermark:
            return exchange
        if time.monotonic() > until_s:
            raise TraceFailed(f"the transaction did not end within {_WAIT_S} s")
        time.sleep(0.02)


def _watermarks_step(title: str, exchange: Exchange) -> Step:
    partition = exchange.answer.responses[0].partitions[0]
    return Step(
        "high watermark",
        title,
        "Last stable offset: read_committed consumers may read below it.",
        (
            row("high_watermark", partition.high_watermark),
            row("last_stable_offset", partition.last_stable_offset),
            row("bytes of records that they receive", len(partition.records or b"")),
        ),
    )
