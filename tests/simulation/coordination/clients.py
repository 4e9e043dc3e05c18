"""Clients of coordinators: producers with a transactional id, and a consumer that commits offsets.

Each has at most one request of a kind under way, and repeats it until it is answered. `act` returns the next one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from protocol.error_codes import ErrorCode
from protocol.messages.add_partitions_to_txn import ADD_PARTITIONS_TO_TXN, AddPartitionsToTxnTopic
from protocol.messages.end_txn import END_TXN
from protocol.messages.init_producer_id import INIT_PRODUCER_ID
from protocol.messages.offset_commit import OFFSET_COMMIT, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.messages.offset_fetch import OFFSET_FETCH, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from protocol.messages.produce import PRODUCE, PartitionProduceData, TopicProduceData
from protocol.messages.txn_offset_commit import (
    TXN_OFFSET_COMMIT,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from protocol.records.builder import BatchBuilder
from protocol.schema import Api, Struct
from tests.simulation.coordination.image import DATA
from tests.simulation.coordination.producer_log import TransactionKey
from tests.simulation.transport import NEWER, OLDER

if TYPE_CHECKING:
    from tests.simulation.coordination.checks import TransactionChecks

TIMEOUT_MS = 10_000
#: Groups: offsets of a consumer, and of transactions.
PLAIN_GROUP, TRANSACTIONAL_GROUP = "g", "h"
_FENCED = {
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.INVALID_TXN_STATE,
}
_ABORTABLE = {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.UNKNOWN_PRODUCER_ID}


class Request(NamedTuple):
    """A request, and the kind of its route."""

    kind: str
    api: Api
    version: int
    body: Struct


class TransactionalClient:
    """A producer. Kafka's TransactionManager, as far as brokers see it.

    `protocol`: OLDER, or NEWER (KIP-890), in which each transaction has an epoch. `ending`: whether the transaction is
    being committed, or aborted; None while it is open.
    """

    def __init__(self, node_id: int, transactional_id: str, protocol: int, checks: TransactionChecks) -> None:
        self.id, self.transactional_id, self.protocol = node_id, transactional_id, protocol
        self._checks = checks
        self._lives = 0
        self.forget()

    def forget(self) -> None:
        """The process restarts, or its producer is fenced. Requests under way may still arrive."""
        self._lives += 1
        self.under_way: set[str] = set()
        self.producer: tuple[int, int] | None = None
        self._begin((0, 0), 0)
        self.producer = None
        self._sequences: dict[int, int] = {}

    def _begin(self, producer: tuple[int, int], ordinal: int) -> None:
        self.producer = producer
        self.ordinal = ordinal
        self.ending: bool | None = None
        self.must_abort = False
        self.partitions: set[int] = set()
        self.joined: set[int] = set()
        self.unanswered: dict[int, bytes] = {}

    @property
    def key(self) -> TransactionKey:
        """The transaction that is open now."""
        assert self.producer is not None
        return TransactionKey(*self.producer, self.ordinal)

    @property
    def may_commit(self) -> bool:
        return not self.unanswered and not self.must_abort

    def kind(self, verb: str, argument: object = "") -> str:
        return f"{verb}{argument}-{self._lives}"

    # -- requests ----------------------------------------------------------------------------------------------------

    def act(self, verb: str, argument: Any, now_ms: int) -> Request | None:
        """Return the request of a step, or None if it cannot be made now."""
        if verb == "restart":
            self.forget()
            return None
        if verb == "init":
            return self._init() if self.producer is None else None
        if self.producer is None or self.kind("end") in self.under_way:
            return None
        if verb == "end":
            return self._end(argument == "commit")
        if self.ending is not None:
            return None
        if verb == "join":
            return self._join(argument) if argument not in self.joined else None
        return self._write(argument, now_ms) if verb == "produce" else self._commit_offset()

    def _send(self, kind: str, api: Api, version: int, body: Struct) -> Request | None:
        if kind in self.under_way:
            return None
        self.under_way.add(kind)
        return Request(kind, api, version, body)

    def _init(self) -> Request | None:
        body = INIT_PRODUCER_ID.request(transactional_id=self.transactional_id, transaction_timeout_ms=TIMEOUT_MS)
        return self._send(self.kind("init"), INIT_PRODUCER_ID, 5, body)

    def _end(self, commit: bool) -> Request | None:
        if self.ending is None:
            has_begun = self.joined if self.protocol == OLDER else self.partitions
            if not has_begun or self.under_way or (commit and not self.may_commit):
                return None
            self.ending = commit
        producer_id, epoch, _ = self.key
        body = END_TXN.request(
            transactional_id=self.transactional_id,
            producer_id=producer_id,
            producer_epoch=epoch,
            committed=self.ending,
        )
        return self._send(self.kind("end"), END_TXN, 5 if self.protocol == NEWER else 4, body)

    def _write(self, partition: int, now_ms: int) -> Request | None:
        if self.protocol == OLDER and partition not in self.joined:
            return None
        if self.must_abort and partition not in self.unanswered:
            return None
        kind = self.kind("produce", partition)
        if kind in self.under_way:
            return None
        batch = self.unanswered.get(partition)
        if batch is None:
            producer_id, epoch, ordinal = self.key
            builder = BatchBuilder(
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=self._sequences.get(partition, 0),
                transactional=True,
            )
            builder.append(now_ms, None, b"%d" % ordinal)
            batch = self.unanswered[partition] = bytes(builder.build())
            self.partitions.add(partition)
        data = [PartitionProduceData(index=partition, records=memoryview(batch))]
        body = PRODUCE.request(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=30_000,
            topic_data=[TopicProduceData(name=DATA, partition_data=data)],
        )
        return self._send(kind, PRODUCE, 12 if self.protocol == NEWER else 11, body)

    def _join(self, partition: int) -> Request | None:
        producer_id, epoch, _ = self.key
        body = ADD_PARTITIONS_TO_TXN.request(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=DATA, partitions=[partition])],
        )
        return self._send(self.kind("join", partition), ADD_PARTITIONS_TO_TXN, 3, body)

    def _commit_offset(self) -> Request | None:
        if self.protocol == OLDER or self.must_abort or self.kind("offsets") in self.under_way:
            return None
        producer_id, epoch, _ = self.key
        partition = TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=self._checks.new_offset(self.key), committed_metadata=""
        )
        body = TXN_OFFSET_COMMIT.request(
            transactional_id=self.transactional_id,
            group_id=TRANSACTIONAL_GROUP,
            producer_id=producer_id,
            producer_epoch=epoch,
            topics=[TxnOffsetCommitRequestTopic(name=DATA, partitions=[partition])],
        )
        self.partitions.add(-1)
        return self._send(self.kind("offsets"), TXN_OFFSET_COMMIT, 5, body)

    # -- answers -----------------------------------------------------------------------------------------------------

    def failed(self, kind: str) -> None:
        """There is no answer."""
        if kind in self.under_way:
            self.under_way.discard(kind)
            if kind.startswith("offsets"):  # the commit may be in the transaction or not: its end is the same for all
                self.must_abort = True

    def answered(self, kind: str, answer: Struct, epoch: int) -> None:
        """Take over an answer; those to an earlier life are ignored."""
        if kind not in self.under_way:
            return
        self.under_way.discard(kind)
        verb = kind.rstrip("0123456789").rstrip("-").rstrip("0123456789")
        code = ErrorCode(_code_of(answer))
        if verb == "init":
            if code is ErrorCode.NONE:
                self._begin((answer.producer_id, answer.producer_epoch), 0)
                self._sequences = {}
        elif code in _FENCED:
            self.forget()
        elif verb == "end":
            if code is ErrorCode.NONE:
                self._ended(answer)
        elif code in _ABORTABLE:
            self.must_abort = True
        elif verb == "produce":
            if code is ErrorCode.NONE:
                partition = int(kind.split("-")[0].removeprefix("produce"))
                del self.unanswered[partition]
                self._sequences[partition] = self._sequences.get(partition, 0) + 1
        elif verb == "join":
            if code is ErrorCode.NONE:
                self.joined.add(int(kind.split("-")[0].removeprefix("join")))
        elif code is not ErrorCode.NONE:
            self.must_abort = True

    def _ended(self, answer: Struct) -> None:
        assert self.ending is not None
        assert self.producer is not None
        self._checks.end_was_answered(self.key, self.ending)
        if self.protocol == NEWER:
            self._begin((answer.producer_id, answer.producer_epoch), 0)
            self._sequences = {}
        elif self.unanswered:
            self.forget()  # some sequence numbers may be in use: the next transaction has another epoch
        else:
            self._begin(self.producer, self.ordinal + 1)


class CommittingClient:
    """A consumer without a group protocol: it commits offsets and fetches them."""

    def __init__(self, node_id: int, checks: TransactionChecks) -> None:
        self.id = node_id
        self._checks = checks
        self.under_way: set[str] = set()
        self._offset = 0
        self._known: dict[str, dict[int, int]] = {}

    def act(self, verb: str, argument: Any, now_ms: int) -> Request | None:
        """Return the request of a step, or None if one of its kind is under way."""
        if verb in self.under_way:
            return None
        self.under_way.add(verb)
        if verb == "commit":
            self._offset += 1
            partition = OffsetCommitRequestPartition(
                partition_index=0, committed_offset=self._offset, committed_metadata=""
            )
            topics = [OffsetCommitRequestTopic(name=DATA, partitions=[partition])]
            return Request(verb, OFFSET_COMMIT, 9, OFFSET_COMMIT.request(group_id=PLAIN_GROUP, topics=topics))
        group = PLAIN_GROUP if verb == "find" else TRANSACTIONAL_GROUP
        self._known[verb] = self._checks.newest_acknowledged(group)
        topic = OffsetFetchRequestTopics(name=DATA, partition_indexes=[0])
        groups = [OffsetFetchRequestGroup(group_id=group, topics=[topic])]
        return Request(verb, OFFSET_FETCH, 8, OFFSET_FETCH.request(groups=groups, require_stable=True))

    def failed(self, kind: str) -> None:
        """There is no answer."""
        self.under_way.discard(kind)

    def answered(self, kind: str, answer: Struct, epoch: int) -> None:
        """Take over an answer of a coordinator that led in an epoch."""
        self.under_way.discard(kind)
        if _code_of(answer):
            return
        if kind == "commit":
            self._checks.commit_was_answered(PLAIN_GROUP, self._offset)
        else:
            ((topic,),) = (each.topics for each in answer.groups)
            (partition,) = topic.partitions
            group = answer.groups[0].group_id
            self._checks.offset_was_fetched(group, partition.committed_offset, self._known[kind], epoch)


def _code_of(answer: Struct) -> int:
    """Return the first error code in an answer."""
    code = getattr(answer, "error_code", 0) or getattr(answer, "partition_error_code", 0)
    if code:
        return int(code)
    for name in ("responses", "partition_responses", "topics", "partitions", "groups", "results_by_topic_v3_and_below",
                 "results_by_partition"):  # fmt: skip
        for each in getattr(answer, name, None) or ():
            found = _code_of(each)
            if found:
                return found
    return 0
