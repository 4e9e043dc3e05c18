"""A warm Produce and Fetch call the functions listed in docs/how-it-works/hot-path.md, and make no more calls.

A member of a cluster makes the same calls for partitions that have one replica.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace

import pytest

from broker.membership.fast_paths import with_fast_paths
from broker.requests.served_api import ServedApi, discover
from protocol.messages.fetch import FETCH, FetchPartition, FetchTopic
from protocol.messages.produce import PRODUCE, PartitionProduceData, TopicProduceData
from protocol.records.builder import BatchBuilder
from tests.support.data_broker import TOPIC_ID
from tests.support.one_connection import ROOT, OneConnection

PAGE = (ROOT / "docs/how-it-works/hot-path.md").read_text()
# Smaller than the index interval; large enough for sendfile.
SMALL, LARGE = 100, 12_000


@pytest.fixture(params=["node", "member"])
def connection(tmp_path: Path, request: pytest.FixtureRequest):
    served: Mapping[int, ServedApi] = discover()
    if request.param == "member":
        served = with_fast_paths(served, SimpleNamespace)  # type: ignore[arg-type]
    with OneConnection(tmp_path, served) as connection:
        connection.broker.topic(partitions=2)
        yield connection


def page_items(title: str) -> tuple[list[tuple[str, str]], int]:
    """Return the functions in the list below a heading of the page, and the number of calls in the heading."""
    heading = re.search(rf"^## {title}: at most (\d+) calls$", PAGE, re.MULTILINE)
    assert heading is not None, f"docs/how-it-works/hot-path.md has no heading for {title}"
    return list(section_items(heading[0])), int(heading[1])


def section_items(heading: str) -> Iterator[tuple[str, str]]:
    """Yield the functions below a heading. A link stands for the functions of the section that it leads to."""
    section = PAGE.partition(f"\n{heading}\n")[2].partition("\n## ")[0]
    for path, name, part in re.findall(r"^- (?:`(.+?)` `(.+?)`|\[.+?\]\(#(.+?)\))", section, re.MULTILINE):
        if part:
            yield from section_items(f"## {part.capitalize()}")
        else:
            yield path, name


def traced_names(traced: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the function names as the page lists them: without lengths, repeated calls as one line."""
    named = [(path, name) for path, name in traced if not name.endswith(".__len__")]
    return [function for function, _ in groupby(named)]


def as_items(functions: list[tuple[str, str]]) -> str:
    return "\n".join(f"- `{path}` `{name}`" for path, name in functions)


def produce(connection: OneConnection, size_bytes: int, partitions: int = 1) -> int:
    """Append a batch of one record of that size to each partition; return the offset in the last one."""
    builder = BatchBuilder()
    builder.append(connection.broker.clock.now_ms(), None, b"x" * size_bytes, ())
    records = builder.build()
    data = [PartitionProduceData(index=index, records=records) for index in range(partitions)]
    answer = connection.call(
        PRODUCE,
        13,
        acks=-1,
        timeout_ms=1000,
        topic_data=[TopicProduceData(topic_id=TOPIC_ID, partition_data=data)],
    )
    answers = answer.responses[0].partition_responses
    assert [each.error_code for each in answers] == [0] * partitions
    return int(answers[-1].base_offset)


def fetch(connection: OneConnection, offset: int, session_id: int, epoch: int, partitions: int = 1) -> int:
    """Fetch from an offset, as a consumer that has read up to it; return the session id.

    The offset is of partition 0. A session's first fetch names all its partitions.
    """
    named = range(partitions if epoch == 0 else 1)
    wanted = [FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20) for index in named]
    answer = connection.call(
        FETCH,
        18,
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=50 << 20,
        session_id=session_id,
        session_epoch=epoch,
        topics=[FetchTopic(topic_id=TOPIC_ID, partitions=wanted)],
    )
    assert len(answer.responses[0].partitions[0].records) > LARGE
    return answer.session_id


def compare(title: str, traced: list[tuple[str, str]]) -> None:
    listed, allowed = page_items(title)
    functions = traced_names(traced)
    assert functions == listed, (
        f"docs/how-it-works/hot-path.md lists other functions for {title}; called were\n{as_items(functions)}"
    )
    assert len(traced) <= allowed, f"{title} took {len(traced)} calls of {allowed} allowed"


def test_warm_produce_calls_the_listed_functions(connection: OneConnection) -> None:
    """One batch, one partition, acks=all, in the newest version."""
    for offset in range(4):
        assert produce(connection, SMALL) == offset

    compare("Produce", connection.traced)


def test_warm_produce_of_partitions_calls_those_listed(connection: OneConnection) -> None:
    """The same for two partitions."""
    for offset in range(4):
        assert produce(connection, SMALL, partitions=2) == offset

    compare("Produce of several partitions", connection.traced)


def test_warm_fetch_calls_the_listed_functions(connection: OneConnection) -> None:
    """One partition in a session, one batch appended just before, in the newest version."""
    session_id, epoch = 0, 0
    for epoch in range(4):
        session_id = fetch(connection, produce(connection, LARGE), session_id, epoch)

    compare("Fetch", connection.traced)


@pytest.mark.parametrize("connection", ["node"], indirect=True)
def test_warm_fetch_of_partitions_calls_those_listed(connection: OneConnection) -> None:
    """The same with a second partition in the session, which has no new records.

    A member first sees that it is not a follower's fetch.
    """
    session_id, epoch = 0, 0
    for epoch in range(4):
        session_id = fetch(connection, produce(connection, LARGE), session_id, epoch, partitions=2)

    compare("Fetch of several partitions", connection.traced)
