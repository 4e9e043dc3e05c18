"""A transactional producer by hand: a test builds each request and compares answers as short texts.

Names stand for producer ids, P0 for the first one seen: the ids differ between brokers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from protocol.error_codes import ErrorCode
from protocol.messages.add_offsets_to_txn import ADD_OFFSETS_TO_TXN
from protocol.messages.add_partitions_to_txn import (
    ADD_PARTITIONS_TO_TXN,
)
from protocol.messages.describe_transactions import DESCRIBE_TRANSACTIONS
from protocol.messages.end_txn import END_TXN
from protocol.messages.find_coordinator import FIND_COORDINATOR
from protocol.messages.init_producer_id import INIT_PRODUCER_ID
from protocol.messages.list_transactions import LIST_TRANSACTIONS
from protocol.messages.offset_fetch import OFFSET_FETCH
from protocol.messages.produce import PRODUCE
from protocol.messages.txn_offset_commit import (
    TXN_OFFSET_COMMIT,
)
from protocol.messages.write_txn_markers import WRITE_TXN_MARKERS
from protocol.records.batch import iter_batches
from protocol.records.entries import iter_records
from protocol.schema import Struct
from tests.support.data_client import DataClient, batch
from tests.support.eventually import eventually
from tests.support.settled import await_coordinator

#: name and epoch
Producer: TypeAlias = tuple[str, int]
#: topic and partition
Place: TypeAlias = tuple[str, int]
_TRANSACTION_KEY = 1
#: how long a step is retried that meets markers still being written
_PATIENCE_S = 20


class TxnClient(DataClient):
    """One connection for any number of transactional ids. `timestamp`: of written records, by default now."""

    timestamp: int | None = None

    def __init__(self, host: str, port: int, **options: Any) -> None:
        super().__init__(host, port, **options)
        self._names: dict[int, str] = {-1: "-"}

    def name(self, producer_id: int) -> str:
        """Return a producer id's name."""
        return self._names.setdefault(producer_id, f"P{len(self._names) - 1}")

    def share_names(self, other: TxnClient) -> None:
        """Use another connection's names of producers from now on."""
        self._names = other._names

    def producer_id(self, name: str) -> int:
        return next(each for each, found in self._names.items() if found == name)

    def wait_for_coordinator(self, transactional_id: str, version: int = 3) -> None:
        """Wait for the coordinator of this id: the first request creates its topic."""
        await_coordinator(self, transactional_id, _TRANSACTION_KEY)

    def wait_for_group(self, group: str, place: Place) -> None:
        """Wait until the group's coordinator answers: the first request creates its topic, too."""
        self.call(FIND_COORDINATOR, 3, key=group)
        eventually(lambda: self.committed_offset(group, place).startswith(("NONE", "UNSTABLE")), timeout_s=_PATIENCE_S)

    def _of(self, transactional_id: str | None, producer: Producer) -> dict[str, Any]:
        """Return the fields that name a transactional id and a producer."""
        return {"transactional_id": transactional_id, **self._of_producer(producer)}

    def _of_producer(self, producer: Producer) -> dict[str, Any]:
        return {"producer_id": self.producer_id(producer[0]), "producer_epoch": producer[1]}

    def init(
        self, transactional_id: str | None, producer: Producer = ("-", -1), *, timeout_ms: int = 60_000,
        version: int = 5,
    ) -> str:  # fmt: skip
        """Send an InitProducerId, e.g. "NONE P0 0"."""
        fields = self._of(transactional_id, producer) if version >= 3 else {"transactional_id": transactional_id}
        answer = self.call(INIT_PRODUCER_ID, version, fields, transaction_timeout_ms=timeout_ms)
        return f"{ErrorCode(answer.error_code).name} {self.name(answer.producer_id)} {answer.producer_epoch}"

    def init_with_retries(self, transactional_id: str, producer: Producer = ("-", -1), **options: int) -> str:
        """Retry `init` while a transaction still ends, or the coordinator starts."""
        passing = ("CONCURRENT_TRANSACTIONS", "NOT_COORDINATOR", "COORDINATOR_")
        return eventually(
            lambda: self.init(transactional_id, producer, **options),
            until=lambda answer: not answer.startswith(passing),
            timeout_s=_PATIENCE_S,
        )

    def add(self, transactional_id: str, producer: Producer, *places: Place, version: int = 3) -> str:
        """Send an AddPartitionsToTxn up to v3: the codes."""
        fields = self._adding(transactional_id, producer, places)
        return _codes(self.call(ADD_PARTITIONS_TO_TXN, version, **fields).results_by_topic_v3_and_below)

    def send_add(self, transactional_id: str, producer: Producer, *places: Place, version: int = 3) -> None:
        """Send an `add`; `added` returns its codes."""
        self.send(ADD_PARTITIONS_TO_TXN, version, **self._adding(transactional_id, producer, places))

    def added(self) -> str:
        return _codes(self.receive().results_by_topic_v3_and_below)

    def _adding(self, transactional_id: str, producer: Producer, places: Sequence[Place]) -> dict[str, Any]:
        fields = {**self._of(transactional_id, producer), "topics": _topics(places)}
        return {f"v3_and_below_{name}": value for name, value in fields.items()}

    def add_many(self, *transactions: tuple[str, Producer, Sequence[Place], bool], version: int = 4) -> list[str]:
        """Send an AddPartitionsToTxn from v4 on: (id, producer, partitions, whether only to verify); return the codes
        of each.
        """
        asked = [
            {**self._of(each, producer), "verify_only": verify_only, "topics": _topics(places)}
            for each, producer, places, verify_only in transactions
        ]
        answer = self.call(ADD_PARTITIONS_TO_TXN, version, transactions=asked)
        assert not answer.error_code
        return sorted(
            f"{each.transactional_id}: {_codes(each.topic_results)}" for each in answer.results_by_transaction
        )

    def add_offsets(self, transactional_id: str, producer: Producer, group: str, version: int = 3) -> str:
        """Send an AddOffsetsToTxn."""
        answer = self.call(ADD_OFFSETS_TO_TXN, version, self._of(transactional_id, producer), group_id=group)
        return ErrorCode(answer.error_code).name

    def commit_offset(
        self,
        transactional_id: str,
        producer: Producer,
        group: str,
        place: Place,
        offset: int,
        *,
        version: int = 3,
        generation: int = -1,
        member: str = "",
        metadata: str = "",
    ) -> str:
        """Send a TxnOffsetCommit of one partition."""
        fields: dict[str, Any] = {}
        if version >= 3:
            fields = {"generation_id_or_member_epoch": generation, "member_id": member}
        partition = {"partition_index": place[1], "committed_offset": offset, "committed_metadata": metadata}
        fields |= {**self._of(transactional_id, producer), "group_id": group}
        topics = [{"name": place[0], "partitions": [partition]}]
        answer = self.call(TXN_OFFSET_COMMIT, version, fields, topics=topics)
        return ErrorCode(answer.topics[0].partitions[0].error_code).name

    def end(self, transactional_id: str, producer: Producer, commit: bool, version: int = 4) -> str:
        """Send an EndTxn; from v5 on with the producer id and epoch for the next transaction."""
        answer = self.call(END_TXN, version, self._of(transactional_id, producer), committed=commit)
        code = ErrorCode(answer.error_code).name
        return f"{code} {self.name(answer.producer_id)} {answer.producer_epoch}" if version >= 5 else code

    def write(
        self,
        transactional_id: str | None,
        producer: Producer,
        place: Place,
        sequence: int,
        *values: bytes,
        version: int = 11,
        transactional: bool = True,
    ) -> str:
        """Produce one batch: code and base offset."""
        records = batch(
            *(values or (b"v",)),
            timestamp=self.timestamp,
            base_sequence=sequence,
            transactional=transactional,
            **self._of_producer(producer),
        )
        data = {"name": place[0], "partition_data": [{"index": place[1], "records": records}]}
        answer = self.call(
            PRODUCE, version, transactional_id=transactional_id, acks=-1, timeout_ms=30_000, topic_data=[data]
        )
        found = answer.responses[0].partition_responses[0]
        return f"{ErrorCode(found.error_code).name} {found.base_offset}"

    def markers(
        self,
        producer: Producer,
        commit: bool,
        *places: Place,
        coordinator_epoch: int = 0,
        version: int = 1,
        transaction_version: int = 0,
    ) -> str:
        """Send a WriteTxnMarkers of one marker, as kafka-transactions does for a hanging transaction."""
        marker = {
            **self._of_producer(producer),
            "transaction_result": commit,
            "coordinator_epoch": coordinator_epoch,
            "topics": _topics(places, "partition_indexes"),
            **({"transaction_version": transaction_version} if version >= 2 else {}),
        }
        answer = self.call(WRITE_TXN_MARKERS, version, markers=[marker])
        found = sorted(
            (topic.name, each.partition_index, each.error_code)
            for topic in answer.markers[0].topics
            for each in topic.partitions
        )
        return ", ".join(f"{name}-{index} {ErrorCode(code).name}" for name, index, code in found)

    def describe(self, transactional_id: str) -> str:
        """Send a DescribeTransactions; return its answer without times."""
        [found] = self.call(DESCRIBE_TRANSACTIONS, 0, transactional_ids=[transactional_id]).transaction_states
        if found.error_code:
            return ErrorCode(found.error_code).name
        places = sorted(f"{topic.topic}-{index}" for topic in found.topics for index in topic.partitions)
        started = "started" if found.transaction_start_time_ms > 0 else str(found.transaction_start_time_ms)
        return (
            f"{found.transaction_state} {self.name(found.producer_id)} {found.producer_epoch} "
            f"{found.transaction_timeout_ms} {started} {places}"
        )

    def settled(self, transactional_id: str) -> str:
        """Return `describe` once no markers are being written."""
        return eventually(
            lambda: self.describe(transactional_id),
            until=lambda text: not text.startswith("Prepare"),
            timeout_s=_PATIENCE_S,
        )

    def transactions(self, version: int = 2, **filters: Any) -> str:
        """Send a ListTransactions; the text includes unknown states."""
        answer = self.call(LIST_TRANSACTIONS, version, **filters)
        found = sorted(f"{each.transactional_id} {each.transaction_state}" for each in answer.transaction_states)
        return f"{ErrorCode(answer.error_code).name} {found} {sorted(answer.unknown_state_filters)}"

    def latest(self, topic: str, partition: int = 0, *, committed: bool) -> int:
        """ListOffsets: last stable offset or high watermark."""
        return self._offset(topic, partition, -1, isolation_level=int(committed))

    def aborted(self, topic: str, partition: int = 0, *, offset: int = 0) -> str:
        """Send a Fetch with read_committed; return its last stable offset and aborted transactions."""
        found = self.fetch(topic, offset, partition, isolation_level=1)
        aborted = [f"{self.name(each.producer_id)}@{each.first_offset}" for each in found.aborted_transactions or []]
        return f"{ErrorCode(found.error_code).name} {found.last_stable_offset} {aborted}"

    def committed_values(self, topic: str, partition: int = 0) -> list[bytes]:
        """The values of `committed_records`."""
        return [value for _, value in self.committed_records(topic, partition)]

    def committed_records(self, topic: str, partition: int = 0) -> list[tuple[bytes, bytes]]:
        """Keys and values that a consumer with read_committed is given: up to the last stable offset, without what was
        aborted.
        """
        found_records: list[tuple[bytes, bytes]] = []
        offset = self.bounds(topic, partition)[0]
        while True:
            found = self.fetch(topic, offset, partition, isolation_level=1)
            data = bytes(found.records or b"")
            if not data or offset >= found.last_stable_offset:
                return found_records
            beginning = sorted((each.first_offset, each.producer_id) for each in found.aborted_transactions or [])
            aborted: set[int] = set()
            for position, header in iter_batches(data):
                while beginning and beginning[0][0] <= header.last_offset:
                    aborted.add(beginning.pop(0)[1])
                offset = header.next_offset
                if header.is_control:
                    aborted.discard(header.producer_id)
                elif not (header.is_transactional and header.producer_id in aborted):
                    batch_bytes = data[position : position + header.size_bytes]
                    found_records += [(bytes(r.key or b""), bytes(r.value or b"")) for r in iter_records(batch_bytes)]

    def committed_offset(self, group: str, place: Place, *, stable: bool = False) -> str:
        """OffsetFetch of one partition."""
        wanted = {"name": place[0], "partition_indexes": [place[1]]}
        groups = [{"group_id": group, "topics": [wanted]}]
        [found] = self.call(OFFSET_FETCH, 8, groups=groups, require_stable=stable).groups
        if found.error_code:
            return ErrorCode(found.error_code).name
        partition = found.topics[0].partitions[0]
        return f"{ErrorCode(partition.error_code).name} {partition.committed_offset}"


def _topics(places: Sequence[Place], indexes: str = "partitions") -> list[dict[str, Any]]:
    by_topic: dict[str, list[int]] = {}
    for topic, index in places:
        by_topic.setdefault(topic, []).append(index)
    return [{"name": name, indexes: each} for name, each in by_topic.items()]


def _codes(results: Sequence[Struct]) -> str:
    found = sorted(
        (topic.name, each.partition_index, each.partition_error_code)
        for topic in results
        for each in topic.results_by_partition
    )
    return ", ".join(f"{name}-{index} {ErrorCode(code).name}" for name, index, code in found)
