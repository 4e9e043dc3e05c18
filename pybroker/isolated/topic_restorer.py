"""Write archived rows into a topic, each once, with their timestamps, keys, headers and partitions, in order.

A partition's rows are numbered from 0. Row n goes to offset `base` + n with sequence number n. All attempts have the
same producer id, so the broker rejects a row that it has, also if a batch of a killed attempt arrives late. The
partition's end says which row is next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from protocol.error_codes import ErrorCode
from protocol.records.compression import Codec
from pybroker.isolated.batches import BATCH_BYTES, TOO_LARGE, Unsent, UnsentRecord, build_batch, size_of
from pybroker.isolated.cluster import Cluster, TopicPartition, kept_cluster
from pybroker.isolated.fetching import Range, fetch_range
from pybroker.isolated.rows import Rows, milliseconds
from pybroker.isolated.serving import Exchange
from pybroker.isolated.topic_requests import partition_offset
from pybroker.isolated.topic_writer import codec_of, header_pairs, produce
from pybroker.source.bounds import EARLIEST, LATEST
from pybroker.source.columns import arrow_schema
from pybroker.source.errors import BrokerFailed, SourceError

#: The columns of a request's batches, in order.
RESTORED_COLUMNS = ("partition", "timestamp", "key", "value", "headers")

#: Errors of a broker that has some of these rows already.
_THERE_ALREADY = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)


def restore(exchange: Exchange) -> dict[str, Any]:
    """Write the missing rows of the request's batches. Return for each partition how many were written, and found.

    Request: `properties`, also compression.type; `topic`; `producer`, its id and epoch; `partitions`: the `base` of
    each, and `index`, the number of its first row. Rows come by partition, and in order. Errors: SourceError if another
    producer writes there, UnknownPartition, BrokerFailed.
    """
    wanted = exchange.wanted
    done = []
    with kept_cluster(wanted["properties"]) as cluster:
        codec = codec_of(wanted["properties"].get("compression.type", "none"))
        current: PartitionRestorer | None = None
        for payload in exchange.received():
            batch = pa.ipc.read_record_batch(pa.py_buffer(payload), arrow_schema(RESTORED_COLUMNS))
            for partition, row in _rows_of(batch):
                if current is None or current.partition != partition:
                    if current is not None:
                        done.append(current.finish())
                    place = wanted["partitions"][str(partition)]
                    current = PartitionRestorer(
                        *(cluster, codec, wanted["topic"], partition, tuple(wanted["producer"])),
                        base=place["base"],
                        index=place["index"],
                    )
                current.take(row)
        if current is not None:
            done.append(current.finish())
    return {"partitions": done}


class PartitionRestorer:
    """Writes one partition: skips rows that the topic has, and sends the others in batches."""

    def __init__(
        self,
        cluster: Cluster,
        codec: Codec,
        topic: str,
        partition: int,
        producer: tuple[int, int],
        *,
        base: int,
        index: int,
    ) -> None:
        self.partition = partition
        self._cluster = cluster
        self._codec = codec
        self._place: TopicPartition = topic, partition
        self._producer = producer
        self._base = base
        #: The number of the next row; rows below `_there` are in the topic.
        self._index = index
        self._there = self._end() - base
        if self._there < index:
            raise SourceError(
                f"{self._name} ends at offset {self._there + base}, and had row {index} at {index + base}"
            )
        self._unsent = Unsent()
        self._batch_bytes = BATCH_BYTES
        self._found = self._written = 0

    def take(self, row: UnsentRecord) -> None:
        """Add the next row."""
        index = self._index
        self._index += 1
        if self._unsent.size_bytes + row.size_bytes > self._batch_bytes:
            self._deliver()
        if index < self._there:
            self._found += 1
            if index == self._there - 1:
                self._compare(index, row)
            return
        self._unsent.append(row)

    def finish(self) -> list[int]:
        """Send the remaining rows. Return (partition, written, found)."""
        self._deliver()
        return [self.partition, self._written, self._found]

    # ---- internals

    @property
    def _name(self) -> str:
        return f"{self._place[0]}-{self._place[1]}"

    def _end(self) -> int:
        return partition_offset(self._cluster, self._place, LATEST)

    def _compare(self, index: int, row: UnsentRecord) -> None:
        """Check that the last record of the topic is the row of its number. Errors: SourceError if not."""
        offset = self._base + index
        if partition_offset(self._cluster, self._place, EARLIEST) > offset:
            return  # deleted since
        found: list[tuple[int, UnsentRecord]] = []
        rows = Rows(RESTORED_COLUMNS, *self._place, lambda batch: found.extend(_rows_of(batch)))
        fetch_range(
            self._cluster, Range(self._place, offset, offset + 1), rows, isolation=0, earliest=lambda: offset + 1
        )
        rows.flush()
        if found and found[0][1] != row:  # nothing where it was compacted away
            raise SourceError(
                f"{self._name}: the record at offset {offset} differs from the archive's: another producer "
                "writes there, or it is another topic"
            )

    def _deliver(self) -> None:
        """Send the buffered rows, without those that the topic has; in halves if the batch is too large."""
        unsent = self._unsent.records
        limit = len(unsent)
        while unsent:
            rows = unsent[:limit]
            allowed = _THERE_ALREADY if len(rows) == 1 else (*_THERE_ALREADY, *TOO_LARGE)
            data = build_batch(rows, self._codec, self._producer, self._there)
            answer = self._cluster.at_leader(
                self._place, partial(produce, place=self._place, data=data, allowed=allowed)
            )
            if answer.error_code in TOO_LARGE:
                limit = len(rows) // 2
                self._batch_bytes = size_of(rows[:limit])
            elif answer.error_code:
                self._pass_over(self._end() - self._base - self._there)
            else:
                self._expect(answer.base_offset)
                self._written += len(rows)
                self._pass_on(len(rows))

    def _pass_over(self, count: int) -> None:
        """Return the number of rows that an earlier attempt's batch added. Errors: BrokerFailed if none."""
        if count <= 0:
            raise BrokerFailed(
                f"{self._name}: the broker rejects row {self._there} (OUT_OF_ORDER_SEQUENCE_NUMBER), and the log "
                f"ends at {self._base + self._there + count}: another producer writes there, or it is another topic"
            )
        self._found += min(count, len(self._unsent.records))
        self._pass_on(count)

    def _pass_on(self, count: int) -> None:
        self._there += count
        self._unsent.drop(count)

    def _expect(self, offset: int) -> None:
        wanted = self._base + self._there
        if offset != wanted:
            raise SourceError(
                f"{self._name}: rows that belong to offset {wanted} went to {offset}: another producer writes there"
            )


def _rows_of(batch: pa.RecordBatch) -> Iterator[tuple[int, UnsentRecord]]:
    partitions, timestamps, keys, values, headers = batch.columns
    columns: Sequence[Sequence[Any]] = (keys.to_pylist(), values.to_pylist(), headers.to_pylist())
    for partition, timestamp, key, value, named in zip(
        partitions.to_pylist(), milliseconds(timestamps), *columns, strict=True
    ):
        yield partition, UnsentRecord(timestamp, key, value, header_pairs(named))
