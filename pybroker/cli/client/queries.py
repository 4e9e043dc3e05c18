"""Queries of Spark that a broker follows, as it tells of them over HTTP: `/queries` of its metrics.listeners.

Not over Kafka's protocol, which has no room for them: a query is in no group, and commits nothing to the broker.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pybroker.cli.client.answers import no_answer, read_answer

if TYPE_CHECKING:
    from pybroker.cli.client.session import Place

_PATH = "/queries"


@dataclass(frozen=True, slots=True)
class Query:
    """A query: its newest batch that is done, one that has been planned since, and what it reads next."""

    name: str
    checkpoint: str
    batch: int | None
    running_batch: int | None
    offsets: dict[Place, int | None]

    @property
    def state(self) -> str:
        """As a group's: what is under way in it, as far as its checkpoint says."""
        if self.running_batch is not None:
            return f"batch {self.running_batch} begun"
        return "no batch done" if self.batch is None else f"batch {self.batch} done"


def read_queries(url: str, timeout_s: float) -> list[Query]:
    """Ask the broker whose metrics are at `url`. UsageError: that is no URL; CommandError."""
    found = read_answer(url, _PATH, timeout_s, option="--queries")
    try:
        return [_query(each) for each in found["queries"]]
    except (ValueError, KeyError, TypeError):
        raise no_answer(url, _PATH) from None


def _query(found: dict[str, Any]) -> Query:
    offsets = {(str(each["topic"]), int(each["partition"])): _number(each["offset"]) for each in found["partitions"]}
    batch, running_batch = _number(found["batch"]), _number(found["running_batch"])
    return Query(str(found["query"]), str(found["checkpoint"]), batch, running_batch, offsets)


def _number(value: Any) -> int | None:
    return None if value is None else int(value)
