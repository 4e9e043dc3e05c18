"""Spark queries that a broker follows, from `/queries` of its metrics.listeners.

Kafka's protocol has no fields for them: a query is in no group, and commits no offsets to the broker.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pybroker.cli.client.metrics_pages import read_json_page, unexpected_page

if TYPE_CHECKING:
    from pybroker.cli.client.session import Place

_PATH = "/queries"


@dataclass(frozen=True, slots=True)
class Query:
    """A query: its newest finished batch, a batch planned after that, and the offsets it reads next."""

    name: str
    checkpoint: str
    batch: int | None
    running_batch: int | None
    offsets: dict[Place, int | None]

    @property
    def state(self) -> str:
        """Return its state in the style of a group's, from its checkpoint."""
        if self.running_batch is not None:
            return f"batch {self.running_batch} begun"
        return "no batch done" if self.batch is None else f"batch {self.batch} done"


def read_queries(url: str, timeout_s: float) -> list[Query]:
    """Return the queries of the broker with this metrics listener.

    Raises UsageError for a bad URL, CommandError if the page cannot be read.
    """
    found = read_json_page(url, _PATH, timeout_s, option="--queries")
    try:
        return [_query(each) for each in found["queries"]]
    except (ValueError, KeyError, TypeError):
        raise unexpected_page(url, _PATH) from None


def _query(found: dict[str, Any]) -> Query:
    offsets = {(str(each["topic"]), int(each["partition"])): _number(each["offset"]) for each in found["partitions"]}
    batch, running_batch = _number(found["batch"]), _number(found["running_batch"])
    return Query(str(found["query"]), str(found["checkpoint"]), batch, running_batch, offsets)


def _number(value: Any) -> int | None:
    return None if value is None else int(value)
