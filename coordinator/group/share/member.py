"""A member of a share group: its subscription and its partitions. An immutable value, as in consumer groups."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec
from msgspec import field

from coordinator.group.assignors.spec import Target
from coordinator.group.modern.checks import JOINING_EPOCH

NOTHING: Mapping[bytes, frozenset[int]] = MappingProxyType({})


class ShareMember(msgspec.Struct, frozen=True):
    """A member; `epoch` 0: joining. It never waits for partitions, because members may share them."""

    member_id: str
    epoch: int = JOINING_EPOCH
    previous_epoch: int = -1
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    assigned: Target = field(default_factory=dict)
