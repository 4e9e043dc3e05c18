"""The cluster that these tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.cluster.mixed_cluster import MixedCluster


@pytest.fixture(scope="session", params=["mixed", pytest.param("all ours", marks=pytest.mark.full_size)])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedCluster]:
    """Start two members, a broker of Apache Kafka and its controller, or three members.

    Tests leave all of them running.
    """
    cluster = MixedCluster(tmp_path_factory.mktemp("cluster"), all_ours=request.param == "all ours")
    yield cluster
    cluster.close()
