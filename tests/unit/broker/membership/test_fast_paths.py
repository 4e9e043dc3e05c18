"""A member serves Produce and Fetch by fast paths that know replicas, and all other APIs as a node alone."""

from __future__ import annotations

import pytest

from broker.membership.fast_paths import with_fast_paths
from broker.requests.served_api import discover
from protocol.api_keys import ApiKey


def no_reads() -> None:
    raise AssertionError("the parts of fetches are asked for by the first request, not before")


def test_produce_and_fetch_have_other_fast_paths() -> None:
    before = discover()
    after = with_fast_paths(before, no_reads)  # type: ignore[arg-type]
    changed = [key for key in before if after[key] is not before[key]]
    assert (after.keys(), changed) == (before.keys(), [ApiKey.PRODUCE, ApiKey.FETCH])


@pytest.mark.parametrize(
    ("key", "module"),
    [
        (ApiKey.PRODUCE, "broker.replication.replicated_produce"),
        (ApiKey.FETCH, "broker.replication.follower_fetch_path"),
    ],
)
def test_the_handlers_are_those_of_a_node_alone(key: ApiKey, module: str) -> None:
    before = discover()
    api, alone = with_fast_paths(before, no_reads)[key], before[key]  # type: ignore[arg-type]
    assert (api.served, api.advertised) == (alone.served, alone.advertised)
    loaded = api.load()
    assert loaded.fast_path is not None
    assert loaded.fast_path.__module__ == module
    assert loaded.handler is alone.load().handler
    assert api.is_loaded
