"""The cluster that these tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.cluster.mixed_cluster import MixedCluster


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedCluster]:
    """Start two members, a broker of Apache Kafka and its controller. Tests leave all of them running."""
    cluster = MixedCluster(tmp_path_factory.mktemp("cluster"))
    yield cluster
    cluster.close()
