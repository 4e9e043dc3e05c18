"""Whether partitions take part in the transaction whose records they are to get (KIP-890).

Asked before the first batch of a transaction in a partition is offered to the log: after it the log itself knows that a
transaction is open. From Produce v12 on a partition joins by being written to; before, it must have been added by a
request, or the batch would leave a transaction open that nobody ends.

A producer may begin its next transaction as soon as EndTxn is answered, and the markers of the last one may still be on
their way then: so from v12 on CONCURRENT_TRANSACTIONS is not told at once, but asked again for a little while.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from struct import Struct as Layout
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from broker.replicas.partition import OfflineLog, Partition
from broker.requests.dispatcher import RequestContext
from broker.requests.error_map import error_code_of
from broker.requests.served_api import Reply
from coordinator.shard import Producer
from coordinator.transaction.transaction import NEWER, TopicPartition
from protocol.errors import ErrorCode
from protocol.records.batch import LOG_OVERHEAD, TRANSACTIONAL_BIT
from protocol.schema import Struct
from runtime.deferred import Deferred, after

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.workers.remote import RemoteTransactionCoordinator

#: length, magic, attributes (the low byte), producer id, its epoch, first sequence.
_peek = Layout(">8xi4xb5xB20xqhi").unpack_from
_PEEKED_BYTES = 57
_MAGIC = 2

FIRST_VERSION_THAT_JOINS = 12
FIRST_VERSION_KNOWING_ABORTABLE = 11

#: What clients that do not know these codes are to try again after; it does not make them ask for metadata.
_TRY_AGAIN = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


class Verdict(NamedTuple):
    """Why a partition's batch is refused."""

    code: ErrorCode
    message: str | None = None


NO_VERDICTS: Mapping[TopicPartition, Verdict] = MappingProxyType({})


class FirstBatch(NamedTuple):
    """A batch of a transaction that is not open in its partition."""

    place: TopicPartition
    producer: Producer
    sequence: int
    is_known: bool  # whether the log knows the producer
    refused: Verdict | None = None  # what the partition itself has to say


class Found(NamedTuple):
    """What the partitions of a request refuse, and their batches for which the coordinator has to be asked."""

    verdicts: Mapping[TopicPartition, Verdict]
    first: list[FirstBatch]


def when_verified(
    ctx: RequestContext, request: Struct, serve: Callable[[Mapping[TopicPartition, Verdict]], Reply]
) -> Reply:
    """What `serve(verdicts)` answers to a Produce with a transactional id: at once, mostly.

    It may be too early: then the coordinator is asked again every add.partitions.to.txn.retry.backoff.ms; after
    add.partitions.to.txn.retry.backoff.max.ms, or request.timeout.ms, its word stands. And where flush.messages asks
    for that, it has to be on the disk that the partitions take part, before their records are.

    Whoever gave the records may be gone by then: as the partitions take part, they get them all the same.
    """
    found = _look(ctx, request)
    if not found.first:
        return serve(found.verdicts)
    remote = ctx.broker.remote_transactions
    if remote is not None:
        return _when_verified_elsewhere(ctx, request, found, remote, serve)
    verdicts = _ask_for(ctx, request, found)
    most_ms = patience_ms(ctx.broker) if is_too_early(ctx, verdicts) else 0
    if most_ms <= 0:
        return _when_forced(ctx, request, verdicts, serve)
    _copy_records(request)
    later = _ask_again(ctx, request, most_ms)
    return after(later, lambda: _when_forced(ctx, request, later.result(), serve), even_if_cancelled=True)


def _when_verified_elsewhere(
    ctx: RequestContext,
    request: Struct,
    found: Found,
    remote: RemoteTransactionCoordinator,
    serve: Callable[[Mapping[TopicPartition, Verdict]], Reply],
) -> Reply:
    """The same in a worker, which has the partitions only: what has to be waited for, the coordinator's process does.

    What it says comes before the marker by which it ends that transaction: both come by one link, in order.
    """
    _copy_records(request)
    asked = remote.ask(request.transactional_id, found.first, ctx.api_version)
    return after(asked, lambda: serve(_conclude(ctx, found, asked.result())), even_if_cancelled=True)


def is_too_early(ctx: RequestContext, found: Mapping[TopicPartition, Verdict]) -> bool:
    """Whether the transaction before is still being ended, so that the coordinator may say something else soon."""
    return (
        bool(found)
        and ctx.api_version >= FIRST_VERSION_THAT_JOINS
        and any(each.code is ErrorCode.CONCURRENT_TRANSACTIONS for each in found.values())
    )


def patience_ms(broker: Broker) -> int:
    """How long to ask again for a transaction whose predecessor is being ended."""
    get_int = broker.config.get_int
    return min(get_int("add.partitions.to.txn.retry.backoff.max.ms"), get_int("request.timeout.ms"))


def _ask_again(ctx: RequestContext, request: Struct, most_ms: int) -> Deferred[Mapping[TopicPartition, Verdict]]:
    """What is said once it is not too early any more, or the time is over."""
    broker = ctx.broker
    backoff_ms = broker.config.get_int("add.partitions.to.txn.retry.backoff.ms")
    until_ms = broker.clock.monotonic_ms() + most_ms
    verified: Deferred[Mapping[TopicPartition, Verdict]] = Deferred()

    def ask() -> None:
        try:
            found = verify(ctx, request)
        except Exception as error:
            verified.fail(error)
            return
        if is_too_early(ctx, found) and broker.clock.monotonic_ms() < until_ms:
            broker.timers.call_later(backoff_ms, ask)
        else:
            verified.resolve(found)

    broker.timers.call_later(backoff_ms, ask)
    return verified


def _when_forced(
    ctx: RequestContext,
    request: Struct,
    found: Mapping[TopicPartition, Verdict],
    serve: Callable[[Mapping[TopicPartition, Verdict]], Reply],
) -> Reply:
    """What `serve` answers once what the coordinator said is on the disk, where it has to be."""

    def ask_again() -> Reply:
        """Somebody may have ended the transaction meanwhile."""
        return serve(verify(ctx, request))

    def refuse(code: ErrorCode) -> Reply:
        verdict = told(code, ctx.api_version)
        return serve({batch.place: verdict for batch in _batches(ctx, request)})

    transactions = ctx.broker.transactions
    waiting = transactions.once_forced(request.transactional_id, ask_again, refuse)
    if waiting is None:
        return serve(found)
    _copy_records(request)
    return waiting


def _copy_records(request: Struct) -> None:
    """What waits, copies: the request lies in its connection's buffer."""
    for topic in request.topic_data:
        for data in topic.partition_data:
            if data.records is not None:
                data.records = memoryview(bytearray(data.records))


def verify(ctx: RequestContext, request: Struct) -> Mapping[TopicPartition, Verdict]:
    """Ask for the partitions of a Produce with a transactional id: those that are refused, mostly none.

    Records of more than one producer refuse all of them: INVALID_PRODUCER_ID_MAPPING.
    """
    found = _look(ctx, request)
    return _ask_for(ctx, request, found) if found.first else found.verdicts


def _ask_for(ctx: RequestContext, request: Struct, found: Found) -> Mapping[TopicPartition, Verdict]:
    codes = ask(ctx.broker, request.transactional_id, found.first, ctx.api_version)
    return _conclude(ctx, found, codes)


def _look(ctx: RequestContext, request: Struct) -> Found:
    """What the partitions themselves say, and what the coordinator has to be asked for."""
    found = list(_batches(ctx, request))
    if len({batch.producer for batch in found}) > 1:
        refused = Verdict(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return Found({batch.place: refused for batch in found}, [])
    return Found(
        {batch.place: batch.refused for batch in found if batch.refused is not None},
        [batch for batch in found if batch.sequence >= 0 and batch.refused is None],
    )


def _conclude(
    ctx: RequestContext, found: Found, codes: Mapping[TopicPartition, ErrorCode]
) -> Mapping[TopicPartition, Verdict]:
    """All that is refused, given what the coordinator has said."""
    refusals = dict(found.verdicts)
    refusals |= {place: told(code, ctx.api_version) for place, code in codes.items() if code is not ErrorCode.NONE}
    if ctx.api_version >= FIRST_VERSION_THAT_JOINS:
        for batch in found.first:
            if batch.sequence and not batch.is_known:
                refusals.setdefault(batch.place, Verdict(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER))
    return refusals


def ask(
    broker: Broker, transactional_id: str, first: list[FirstBatch], api_version: int
) -> dict[TopicPartition, ErrorCode]:
    """What the coordinator says of the partitions, joined now or before."""
    places = frozenset(batch.place for batch in first)
    producer = first[0].producer
    if api_version >= FIRST_VERSION_THAT_JOINS:
        return dict.fromkeys(places, broker.transactions.join(transactional_id, producer, places, NEWER))
    if not broker.config.get_bool("transaction.partition.verification.enable"):
        return {}
    return broker.transactions.verify(transactional_id, producer, places)


def told(code: ErrorCode, api_version: int) -> Verdict:
    """The coordinator's code in words that the producer knows."""
    if code is ErrorCode.PRODUCER_FENCED:
        return Verdict(ErrorCode.INVALID_PRODUCER_EPOCH)
    if code is ErrorCode.TRANSACTION_ABORTABLE and api_version < FIRST_VERSION_KNOWING_ABORTABLE:
        return Verdict(ErrorCode.INVALID_TXN_STATE, "Partition was not added to the transaction")
    if code in _TRY_AGAIN or (code is ErrorCode.CONCURRENT_TRANSACTIONS and api_version < FIRST_VERSION_THAT_JOINS):
        message = f"Unable to verify the partition has been added to the transaction. Underlying error: {code.name}"
        return Verdict(ErrorCode.NOT_ENOUGH_REPLICAS, message)
    return Verdict(code)


def _batches(ctx: RequestContext, request: Struct) -> Iterator[FirstBatch]:
    """The transactional batches; those of a transaction that is open in their partition with a sequence below 0."""
    partitions = ctx.broker.partitions
    for topic in request.topic_data:
        name = topic.name if ctx.api_version < 13 else partitions.topic_name(topic.topic_id)
        for data in topic.partition_data:
            records = data.records
            partition = None if name is None else partitions.get(name, data.index)
            if partition is None or records is None or len(records) < _PEEKED_BYTES:
                continue
            length, magic, attributes, producer_id, epoch, sequence = _peek(records)
            is_whole = magic == _MAGIC and length + LOG_OVERHEAD <= len(records)
            if is_whole and attributes & TRANSACTIONAL_BIT and producer_id >= 0:
                place, producer = TopicPartition(partition.topic, partition.index), Producer(producer_id, epoch)
                yield _first_batch(partition, place, producer, max(sequence, 0))


def _first_batch(partition: Partition, place: TopicPartition, producer: Producer, sequence: int) -> FirstBatch:
    log = partition.log
    if isinstance(log, OfflineLog):  # it may be open when the coordinator has answered, which was not asked for it
        return FirstBatch(place, producer, sequence, False, Verdict(error_code_of(log.reason)))
    entry = log.producer_state.producers.get(producer.producer_id)
    is_fenced = entry is not None and producer.producer_epoch < entry.producer_epoch
    sequence = -1 if is_open(partition, producer) else sequence
    refused = Verdict(ErrorCode.INVALID_PRODUCER_EPOCH) if is_fenced else None
    return FirstBatch(place, producer, sequence, entry is not None, refused)


def is_open(partition: Partition, producer: Producer) -> bool:
    """Whether the partition has a transaction of this producer, and of this epoch, open.

    Not so sure while something waits there for its turn: it may be the marker that ends it.
    """
    entry = partition.log.producer_state.producers.get(producer.producer_id)
    return (
        entry is not None
        and entry.transaction_offset >= 0
        and entry.producer_epoch == producer.producer_epoch
        and partition.queue is None
    )
