"""A node alone does not serve partitions that other brokers replicate."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from broker.startup.alone import check_alone
from metadata.image import MetadataImage, TopicImage
from metadata.partition_registration import PartitionRegistration
from storage.errors import DirectoryRefused

LOG: Any = SimpleNamespace(path="/data/__cluster_metadata-0")


def image(replicas: tuple[int, ...], isr: tuple[int, ...]) -> MetadataImage:
    found = MetadataImage()
    found.add_topic(TopicImage("orders", bytes(15) + b"\x01", {3: PartitionRegistration(replicas, isr, isr[0], 1, 1)}))
    return found


def test_in_sync_replicas_elsewhere_are_refused() -> None:
    """They could lead later without the records that only this node had."""
    with pytest.raises(DirectoryRefused, match=r"orders-3 has in-sync replicas on other brokers \(2, 3\)"):
        check_alone(LOG, image((1, 2, 3), (1, 2, 3)), 1)


@pytest.mark.parametrize(("replicas", "isr"), [((1,), (1,)), ((1, 2), (1,)), ((2, 3), (2, 3))])
def test_others_are_served(replicas: tuple[int, ...], isr: tuple[int, ...]) -> None:
    """This node serves nothing of a partition without a replica here."""
    check_alone(LOG, image(replicas, isr), 1)
