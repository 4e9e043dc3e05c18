"""WriteTxnMarkers v1-v2: write the end of transactions to partitions; also aborts hanging ones (KIP-664).

Versions: v1 flexible; v2 the transaction.version of each (KIP-1228). This broker's own coordinator sends no request.
"""

from __future__ import annotations

from broker.coordinators.transaction.markers import Marker, MarkerWriter
from broker.requests.dispatcher import RequestContext
from broker.requests.error_code_map import error_code_of
from broker.requests.served_api import Reply, handles
from coordinator.shard import Producer
from protocol.error_codes import ErrorCode
from protocol.messages.write_txn_markers import (
    WRITE_TXN_MARKERS,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
)
from protocol.schema import Struct
from runtime.deferred import Deferred, settled


@handles(WRITE_TXN_MARKERS)
def write_txn_markers(ctx: RequestContext, request: Struct, *, markers: MarkerWriter) -> Reply:
    waiting: list[Deferred[ErrorCode]] = []
    response = WRITE_TXN_MARKERS.response(
        markers=[
            WritableTxnMarkerResult(
                producer_id=each.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            _write(markers, each, topic.name, index, waiting) for index in topic.partition_indexes
                        ],
                    )
                    for topic in each.topics
                ],
            )
            for each in request.markers
        ]
    )
    return settled(waiting).then(lambda _: response) if waiting else response


def _write(markers: MarkerWriter, asked: Struct, topic: str, index: int, waiting: list[Deferred[ErrorCode]]) -> Struct:
    """Return the answer for one partition, which is complete once what it adds to `waiting` is done."""
    answer = WritableTxnMarkerPartitionResult(partition_index=index)
    marker = Marker(
        Producer(asked.producer_id, asked.producer_epoch),
        asked.transaction_result,
        asked.coordinator_epoch,
        asked.transaction_version,
    )
    code = markers.write(marker, topic, index)
    if not isinstance(code, Deferred):
        answer.error_code = code
        return answer

    def set_error(done: Deferred[ErrorCode]) -> None:
        try:
            answer.error_code = done.result()
        except Exception as error:
            answer.error_code = error_code_of(error)

    code.add_done_callback(set_error)
    waiting.append(code)
    return answer
