"""The clusters that these tests share."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.conformance.cluster.mixed_cluster import MixedCluster


@pytest.fixture(scope="package")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], MixedCluster]]:
    """Return a function that returns the cluster of a kind, started at its first use.

    Both kinds run until the last of these files: one worker runs them all, and each takes both kinds in turn.
    """
    running: dict[str, MixedCluster] = {}

    def get(kind: str) -> MixedCluster:
        if kind not in running:
            running[kind] = MixedCluster(tmp_path_factory.mktemp("cluster"), all_ours=kind == "all ours")
        return running[kind]

    yield get
    for cluster in running.values():
        cluster.close()


@pytest.fixture(scope="package", params=["mixed", pytest.param("all ours", marks=pytest.mark.full_size)])
def cluster(request: pytest.FixtureRequest, clusters: Callable[[str], MixedCluster]) -> MixedCluster:
    """Return two members, a broker of Apache Kafka and its controller, or three members.

    Tests leave all of them running.
    """
    return clusters(request.param)
