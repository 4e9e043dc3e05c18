"""A member serves Produce by the fast path that knows replicas, and all other APIs as a node alone."""

from __future__ import annotations

from broker.membership.fast_paths import with_fast_paths
from broker.replication.replicated_produce import replicated_produce
from broker.requests.served_api import discover
from protocol.api_keys import ApiKey


def test_only_produce_has_another_fast_path() -> None:
    before = discover()
    after = with_fast_paths(before)
    changed = [key for key in before if after[key] is not before[key]]
    assert (after.keys(), changed) == (before.keys(), [ApiKey.PRODUCE])
    produce, alone = after[ApiKey.PRODUCE], before[ApiKey.PRODUCE]
    assert (produce.served, produce.advertised) == (alone.served, alone.advertised)
    loaded = produce.load()
    assert loaded.fast_path is replicated_produce
    assert loaded.handler is alone.load().handler
    assert produce.is_loaded
