"""Produce v0-v13: append record batches to the logs of partitions.

Versions: v0-v2, which Kafka 4 has dropped though it advertises them, carry messages, which are converted to batches
(storage/append/message_sets.py); v1 throttle time; v2 append time; v3 transactional id, record batches (KIP-98); v5 log
start offset (KIP-207); v7 zstd (KIP-110); v8 record errors (KIP-467); v9 flexible; v10 address of the new leader
(KIP-951); v12 adds partitions to transactions implicitly (KIP-890); v13 topic ids (KIP-516). The first batch of a
transaction in a partition is appended only if the partition takes part in it. From v12 on, the partition joins by the
write (broker/coordinators/transaction/verification.py).

For each partition: find it, check the header of its batch, append. No work is done for a single record. A request with
acks=0 has no answer: an error closes the connection, so that the producer notices it. acks=1 and acks=all mean the same
with one replica. An answer waits where records have to reach the disk or other replicas first
(broker/replicas/durability.py), and where a batch has to be opened (broker/replicas/append_scheduler.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from broker.coordinators.transaction.verification import NO_VERDICTS, when_verified
from broker.coordinators.transaction.verifier import Verdict
from broker.replicas.fast_path.plain_produce import appended_by, plain_produce
from broker.replicas.partition import Partition
from broker.replicas.produce_checks import is_one_batch, last_of_each, refuse_partition, refuse_request
from broker.requests.dispatcher import CloseConnection, RequestContext
from broker.requests.error_code_map import NotCommitted, error_code_of
from broker.requests.served_api import Reply, handles
from coordinator.transaction.transaction import TopicPartition
from protocol.error_codes import ErrorCode
from protocol.messages.produce import (
    PRODUCE,
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    TopicProduceResponse,
)
from protocol.schema import Struct
from runtime.deferred import Deferred, settled
from storage.append.message_sets import are_messages, batch_of_messages, has_whole_message
from storage.append.result import AppendResult
from storage.errors import (
    AppendRefused,
    CorruptRecords,
    InvalidRecords,
    LogOffline,
    RecordBatchTooLarge,
    RecordTooLarge,
    TooMuchToOpen,
)

if TYPE_CHECKING:
    from broker.coordinators.transaction.verifier import TransactionVerifier
    from broker.replicas.append_scheduler import AppendScheduler
    from broker.replicas.current_leaders import CurrentLeaders
    from broker.replicas.durability import Durability
    from broker.replicas.partitions import Partitions
    from broker.requests.advertised_endpoints import AdvertisedEndpoints
    from runtime.clock import Clock

Append: TypeAlias = "Callable[[Partition, memoryview, int], AppendResult | Deferred[AppendResult]]"

_new_response = PRODUCE.response.new
_new_topic = TopicProduceResponse.new
_new_partition = PartitionProduceResponse.new

_FIRST_VERSION_WITH_BATCHES = 3
_FIRST_VERSION_WITH_LEADER = 10
_NOBODY: frozenset[int] = frozenset()
_NOTHING_APPENDED = AppendResult(-1, -1, -1, -1, -1, False, False)

#: With these errors, Kafka does not return the log start offset.
_WITHOUT_LOG_START = (CorruptRecords, RecordTooLarge, RecordBatchTooLarge, TooMuchToOpen, LogOffline)


class Needs(NamedTuple):
    """The services that the append and the answer use."""

    partitions: Partitions
    appends: AppendScheduler
    durability: Durability
    clock: Clock
    current_leaders: CurrentLeaders
    endpoints: AdvertisedEndpoints


@handles(PRODUCE, fast_path=plain_produce)
def produce(
    ctx: RequestContext,
    request: Struct,
    *,
    partitions: Partitions,
    appends: AppendScheduler,
    durability: Durability,
    clock: Clock,
    current_leaders: CurrentLeaders,
    endpoints: AdvertisedEndpoints,
    verifier: TransactionVerifier,
) -> Reply:
    needs = Needs(partitions, appends, durability, clock, current_leaders, endpoints)
    refused = refuse_request(request)
    if refused is not None:
        return _answer(ctx, needs, request.acks, refused, [], [])
    topics = request.topic_data
    if len(topics) != 1 or len(topics[0].partition_data) != 1:
        request.topic_data = last_of_each(topics)
    if request.transactional_id is None:
        return _append_all(ctx, needs, request, NO_VERDICTS)
    return when_verified(partitions, verifier, ctx.api_version, request, partial(_append_all, ctx, needs, request))


def _append_all(
    ctx: RequestContext, needs: Needs, request: Struct, refusals: Mapping[TopicPartition, Verdict]
) -> Reply:
    """Append partition by partition, and answer. The fast path may have appended the first ones."""
    appended = appended_by(ctx.progress)
    by_name = ctx.api_version < 13
    partitions, appends = needs.partitions, needs.appends
    append = appends.append if ctx.api_version >= _FIRST_VERSION_WITH_BATCHES else _append_messages(appends)
    acks = request.acks
    wait = _Wait(needs.durability, acks, request.timeout_ms)
    now_ms = needs.clock.now_ms()
    responses = []
    waiting: list[Deferred[None]] = []
    pending: list[Deferred[None]] = []
    leaders = _NOBODY
    for topic in request.topic_data:
        name = topic.name if by_name else partitions.topic_name(topic.topic_id)
        answers = []
        for data in topic.partition_data:
            answer = _new_partition(index=data.index, base_offset=-1)
            answers.append(answer)
            if (known := next(appended, None)) is not None:
                answer.base_offset, answer.log_append_time_ms, answer.log_start_offset = known
                continue
            partition = None if name is None else partitions.get(name, data.index)
            if partition is None:
                answer.error_code = partitions.absence(name, data.index)
                if answer.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
                    leaders |= _set_leader(ctx, needs.current_leaders, answer, name)
                continue
            if not acks:
                partitions.open_now(partition)
            answer.error_code = refuse_partition(ctx, partition, data.records, acks)
            if answer.error_code:
                continue
            if refusals and (refusal := refusals.get(TopicPartition(partition.topic, partition.index))) is not None:
                answer.error_code, answer.error_message = refusal
                continue
            try:
                result = append(partition, data.records, now_ms)
            except Exception as error:
                _set_error(answer, partition, error, is_one_batch(data.records))
                continue
            if isinstance(result, Deferred):
                pending.append(_when_appended(wait, partition, answer, result, is_one_batch(data.records)))
            else:
                _set_offset(answer, result)
                if result.must_wait:
                    waiting.append(wait(partition, answer, result))
        responses.append(_new_topic(name=topic.name, topic_id=topic.topic_id, partition_responses=answers))
    return _answer(ctx, needs, acks, responses, waiting, pending, leaders)


def _append_messages(appends: AppendScheduler) -> Append:
    """Return a function that appends the records of old clients, which may be messages or batches."""

    def append(partition: Partition, records: memoryview, now_ms: int) -> AppendResult | Deferred[AppendResult]:
        if not are_messages(records):
            return appends.append(partition, records, now_ms)
        if not has_whole_message(records):
            return _NOTHING_APPENDED
        return appends.append_converted(partition, records, now_ms, batch_of_messages)

    return append


def _answer(
    ctx: RequestContext,
    needs: Needs,
    acks: int,
    responses: list[Struct],
    waiting: list[Deferred[None]],
    pending: list[Deferred[None]],
    leaders: frozenset[int] = _NOBODY,
) -> Reply:
    """Return the answer, or None with acks=0. Raises, or fails with, CloseConnection if that failed.

    `leaders`: who else leads partitions that were asked for.
    """
    if pending:
        needs.appends.count(settled(pending))
    if acks == 0:
        if pending:
            silence: Deferred[Any] = settled(pending).then(lambda _: _close_if_failed(responses))
            return silence
        _close_if_failed(responses)
        return None
    response = _new_response(responses=responses)
    if leaders:
        response.node_endpoints = needs.endpoints.structs(ctx.connection, NodeEndpoint, leaders)
    if not waiting and not pending:
        return response
    # Records that only wait for the disk or for other replicas have their offsets already: later requests may start.
    return settled(pending + waiting, mutes=bool(pending)).then(lambda _: response)


def _close_if_failed(responses: list[Struct]) -> None:
    """Raise CloseConnection if a partition failed: a request with acks=0 has no answer."""
    if any(answer.error_code for topic in responses for answer in topic.partition_responses):
        raise CloseConnection("a Produce with acks=0 failed")


def _set_leader(
    ctx: RequestContext, current_leaders: CurrentLeaders, answer: Struct, topic: str | None
) -> frozenset[int]:
    """Set the leader in the answer if another broker leads the partition; returns its id. Saves a Metadata request."""
    leader = current_leaders.other_leader(topic, answer.index)
    if leader is None or ctx.api_version < _FIRST_VERSION_WITH_LEADER:
        return _NOBODY
    answer.current_leader = LeaderIdAndEpoch(leader_id=leader[0], leader_epoch=leader[1])
    return frozenset((leader[0],))


def _set_offset(answer: Struct, result: AppendResult) -> None:
    """Fill in the answer for records that were appended."""
    answer.base_offset, _, _, answer.log_append_time_ms, answer.log_start_offset, _, _ = result


def _set_error(answer: Struct, partition: Partition, error: Exception, is_one_batch: bool) -> None:
    """Fill in the answer for records that the log refused."""
    answer.error_code = error_code_of(error) if partition.hosted else partition.absence
    if not isinstance(error, _WITHOUT_LOG_START) and (is_one_batch or not isinstance(error, InvalidRecords)):
        answer.log_start_offset = partition.log_start_offset
    if isinstance(error, AppendRefused) and error.record_errors:
        messages = [message for _, message in error.record_errors]
        answer.error_message = str(error)
        if isinstance(error, InvalidRecords):
            messages = [f"{message} in topic partition {partition.topic}-{partition.index}" for message in messages]
            first = ", ".join(
                f"RecordError(batchIndex={each.batch_index}, message='{message}')"
                for each, message in list(zip(error.record_errors, messages, strict=True))[:3]
            )
            answer.error_message = (
                f"One or more records have been rejected due to {error.error_count} record errors in total, "
                f"and only showing the first three errors at most: [{first}]"
            )
        answer.record_errors = [
            BatchIndexAndErrorMessage(batch_index=each.batch_index, batch_index_error_message=message)
            for each, message in zip(error.record_errors, messages, strict=True)
        ]


class _Wait(NamedTuple):
    """Waits until appended records may be acknowledged."""

    durability: Durability
    acks: int
    timeout_ms: int

    def __call__(self, partition: Partition, answer: Struct, result: AppendResult) -> Deferred[None]:
        """Resolve once the records may be acknowledged, or the answer has the error."""

        def on_safe(done: Deferred[None]) -> None:
            try:
                done.result()
            except Exception as error:
                answer.error_code = error_code_of(error)
                if not isinstance(error, NotCommitted):  # the records have their offsets, as Kafka answers
                    answer.base_offset = answer.log_append_time_ms = answer.log_start_offset = -1

        safe = self.durability.acknowledged(partition, result, self.acks, self.timeout_ms)
        safe.add_done_callback(on_safe)
        return safe


def _when_appended(
    wait: _Wait, partition: Partition, answer: Struct, appended: Deferred[AppendResult], is_one_batch: bool
) -> Deferred[None]:
    """Resolve once the answer for a partition is complete whose records wait for their turn."""
    complete: Deferred[None] = Deferred()

    def on_appended(_: object) -> None:
        try:
            result = appended.result()
        except Exception as error:
            _set_error(answer, partition, error, is_one_batch)
        else:
            _set_offset(answer, result)
            if result.must_wait:
                wait(partition, answer, result).add_done_callback(lambda _: complete.resolve(None))
                return
        complete.resolve(None)

    appended.add_done_callback(on_appended)
    return complete
