"""FindCoordinator v0-v6: find the coordinator of a group, a transactional id, or the state of a share-partition.

Versions: v1 kinds of keys (KIP-98); v4 several keys (KIP-699); v6 share keys (KIP-932). The coordinator of a key is the
leader of its partition in the kind's own topic. If that topic is missing, it is created, and the answer waits for it.
Kafka answers COORDINATOR_NOT_AVAILABLE at once instead, and the client retries.
"""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING

import msgspec

from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from coordinator.partition_for_key import partition_for
from metadata.image import MetadataImage
from metadata.topic_names import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from protocol.error_codes import ErrorCode
from protocol.messages.find_coordinator import FIND_COORDINATOR, Coordinator
from protocol.schema import Struct
from runtime.deferred import after, settled

if TYPE_CHECKING:
    from broker.automatic_topics import AutomaticTopics
    from broker.metadata_cache import MetadataCache
    from broker.requests.advertised_endpoints import AdvertisedEndpoints

GROUP, TRANSACTION, SHARE = range(3)
TOPICS = {GROUP: CONSUMER_OFFSETS, TRANSACTION: TRANSACTION_STATE, SHARE: SHARE_GROUP_STATE}

FIRST_VERSION_WITH_MANY_KEYS = 4
FIRST_VERSION_WITH_SHARE_KEYS = 6

#: group:topic id:partition; the group may have colons too.
_SHARE_KEY = re.compile(r"(.*[^\s:].*):([A-Za-z0-9_-]{22}(?:==)?):([+-]?[0-9]{1,10})", re.DOTALL)


class CoordinatorAddress(msgspec.Struct, frozen=True):
    """The coordinator of a key. It has an address if the code is NONE."""

    code: ErrorCode
    node_id: int = -1
    host: str = ""
    port: int = -1


@handles(FIND_COORDINATOR)
def find_coordinator(
    ctx: RequestContext,
    request: Struct,
    *,
    metadata: MetadataCache,
    topics: AutomaticTopics,
    endpoints: AdvertisedEndpoints,
) -> Reply:
    kind = request.key_type
    if kind not in TOPICS:
        refused = CoordinatorAddress(ErrorCode.INVALID_REQUEST)
        return answer(ctx, request, dict.fromkeys(keys_of(ctx, request), refused), tells_why=True)
    topic = TOPICS[kind]
    image = metadata.image
    if image.topic(topic) is None and any(is_valid(ctx, kind, key) for key in keys_of(ctx, request)):
        made = settled([topics.ensure(topic)])  # a failure shows as a missing coordinator
        return after(made, lambda: find_all(ctx, image, endpoints, request, kind))
    return find_all(ctx, image, endpoints, request, kind)


def keys_of(ctx: RequestContext, request: Struct) -> list[str]:
    """Return the requested keys; up to v3 there is one."""
    if ctx.api_version >= FIRST_VERSION_WITH_MANY_KEYS:
        keys: list[str] = request.coordinator_keys
        return keys
    return [request.key]


def is_valid(ctx: RequestContext, kind: int, key: str) -> bool:
    """Whether a key is valid. Only share keys have a form."""
    if kind != SHARE:
        return True
    parts = _SHARE_KEY.fullmatch(key)
    if parts is None or ctx.api_version < FIRST_VERSION_WITH_SHARE_KEYS:
        return False
    return len(base64.urlsafe_b64decode(parts[2].rstrip("=") + "==")) == 16 and abs(int(parts[3])) < 2**31


def find_all(
    ctx: RequestContext, image: MetadataImage, endpoints: AdvertisedEndpoints, request: Struct, kind: int
) -> Struct:
    """Return the answer for keys of a kind whose topic exists, unless it could not be created."""
    return answer(
        ctx, request, {key: find(ctx, image, endpoints, kind, key) for key in keys_of(ctx, request)}, tells_why=False
    )


def find(
    ctx: RequestContext, image: MetadataImage, endpoints: AdvertisedEndpoints, kind: int, key: str
) -> CoordinatorAddress:
    """Return the coordinator of a key.

    The code is INVALID_REQUEST for an invalid key, COORDINATOR_NOT_AVAILABLE if the partition of the key has no leader.
    """
    if not is_valid(ctx, kind, key):
        return CoordinatorAddress(ErrorCode.INVALID_REQUEST)
    topic = image.topic(TOPICS[kind])
    partition = None if topic is None else topic.partitions.get(partition_for(key, len(topic.partitions)))
    if partition is not None:
        for node in endpoints.nodes(ctx.connection):
            if node.node_id == partition.leader:
                return CoordinatorAddress(ErrorCode.NONE, node.node_id, node.host, node.port)
    return CoordinatorAddress(ErrorCode.COORDINATOR_NOT_AVAILABLE)


def answer(ctx: RequestContext, request: Struct, found: dict[str, CoordinatorAddress], *, tells_why: bool) -> Struct:
    """Return the answer in the form of its version. Up to v3 it always has a text, later only with `tells_why`."""
    if ctx.api_version >= FIRST_VERSION_WITH_MANY_KEYS:
        return FIND_COORDINATOR.response(
            coordinators=[
                Coordinator(
                    key=key,
                    node_id=found[key].node_id,
                    host=found[key].host,
                    port=found[key].port,
                    error_code=found[key].code,
                    error_message=found[key].code.text if tells_why else "",
                )
                for key in request.coordinator_keys
            ]
        )
    only = found[request.key]
    return FIND_COORDINATOR.response(
        error_code=only.code,
        error_message="NONE" if only.code is ErrorCode.NONE else only.code.text,
        node_id=only.node_id,
        host=only.host,
        port=only.port,
    )
