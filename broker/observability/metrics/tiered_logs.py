"""Answer `/tiering`: why segments of tiered logs are still on this disk, as JSON. Only a broker with a tier loads it.

Kafka's protocol cannot return it.
"""

from __future__ import annotations

import json
from asyncio import AbstractEventLoop
from concurrent.futures import Future
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qs

from broker.tiering.local_reasons import explained_log, tiered_logs

if TYPE_CHECKING:
    from broker.tiering.local_reasons import ExplainedLog
    from broker.tiering.tier import Tier
    from storage.log.partition_log import PartitionLog

#: The most logs of an answer that names no topic.
MOST_LOGS = 1000


class Asked(NamedTuple):
    """The logs that a query names; None: all topics, or all partitions."""

    topic: str | None = None
    partition: int | None = None


def asked_logs(query: str) -> Asked:
    """Return the logs of a query's `topic=` and `partition=`. Raises ValueError with a line for the client."""
    fields = parse_qs(query)
    topic, partition = fields.get("topic"), fields.get("partition")
    number = None if partition is None else partition[-1]
    if number is not None and not (number.isascii() and number.isdigit() and len(number) < 11):
        raise ValueError("partition= is a number")
    return Asked(None if topic is None else topic[-1], None if number is None else int(number))


def take_logs(loop: AbstractEventLoop, tier: Tier, asked: Asked) -> Future[list[ExplainedLog]]:
    """Return the logs as the loop sees them: one log in each turn, so that requests are served in between.

    Raises RuntimeError if the loop is closed.
    """
    answer: Future[list[ExplainedLog]] = Future()
    found: list[ExplainedLog] = []

    def begin() -> None:
        go_on(tiered_logs(tier, asked.topic, asked.partition)[:MOST_LOGS])

    def go_on(logs: list[PartitionLog]) -> None:
        try:
            if logs and (explained := explained_log(tier, logs[0])) is not None:
                found.append(explained)
        except Exception as error:
            answer.set_exception(error)
            return
        if logs:
            loop.call_soon(go_on, logs[1:])
        else:
            answer.set_result(found)

    loop.call_soon_threadsafe(begin)
    return answer


def tiered_logs_json(logs: list[ExplainedLog]) -> bytes:
    """Return an object with `logs`. Safe in any thread. Times are in ms since 1970, `end_offset` is inclusive."""
    return json.dumps({"logs": [_log(each) for each in logs]}).encode()


def _log(log: ExplainedLog) -> dict[str, object]:
    return {
        "topic": log.topic,
        "partition": log.partition,
        "copied_offset": log.copied_offset,
        "left_out": log.left_out,
        "segments": [
            {
                "start_offset": segment.start_offset,
                "end_offset": segment.end_offset,
                "size_bytes": segment.size_bytes,
                "reason": why.reason.value,
                "text": why.text,
                "at_ms": why.at_ms,
            }
            for segment, why in log.segments
        ],
    }
