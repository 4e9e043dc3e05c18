"""A member of a share group: what it reads, and what it has. Values, as in consumer groups."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec
from msgspec import field

from coordinator.group.assignors.spec import Target

NOTHING: Mapping[bytes, frozenset[int]] = MappingProxyType({})
#: Epochs with a meaning of their own in requests.
JOINING_EPOCH = 0
LEAVING_EPOCH = -1


class ShareMember(msgspec.Struct, frozen=True):
    """A member; `epoch` 0: joining. There is nothing to wait for: others may have the same partitions."""

    member_id: str
    epoch: int = JOINING_EPOCH
    previous_epoch: int = -1
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    assigned: Target = field(default_factory=dict)
