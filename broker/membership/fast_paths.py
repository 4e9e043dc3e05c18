"""APIs that have other fast paths in a member than in a node alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from broker.requests.served_api import Implementation, ServedApi
from protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from broker.replication.replica_reads import ReplicaReads
    from broker.requests.served_api import FastPathFactory

    Reads = Callable[[], ReplicaReads]


def _produce(reads: Reads) -> FastPathFactory:
    from broker.replication.replicated_produce import replicated_produce

    return replicated_produce


def _fetch(reads: Reads) -> FastPathFactory:
    from broker.replication.follower_fetch_path import fetch_of_members

    return fetch_of_members(reads)


#: Each API with a function that imports its fast path, which the first request needs.
_FAST_PATHS: Mapping[int, Callable[[Reads], FastPathFactory]] = {ApiKey.PRODUCE: _produce, ApiKey.FETCH: _fetch}


def with_fast_paths(served: Mapping[int, ServedApi], reads: Reads) -> dict[int, ServedApi]:
    """Return the same APIs, of which some know the partitions that have several replicas.

    `reads` returns what fetches of a member use, once it exists.
    """
    return {
        key: MemberApi(each, partial(_FAST_PATHS[key], reads)) if key in _FAST_PATHS else each
        for key, each in served.items()
    }


class MemberApi(ServedApi):
    """The API with the fast path of a member."""

    __slots__ = ("_fast_path", "_of")

    def __init__(self, served: ServedApi, fast_path: Callable[[], FastPathFactory]) -> None:
        super().__init__(served.key, served.served, served.advertised)
        self._of = served
        self._fast_path = fast_path

    def load(self) -> Implementation:
        found = self.implementation
        if found is None:
            found = self.implementation = self._of.load()._replace(fast_path=self._fast_path())
        return found
