"""DescribeClientQuotas v0-v1: list the quotas of users, clients and addresses that match a filter (KIP-546).

Versions: v1 flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from metadata.client_quotas import Component, describe_quotas
from metadata.decision import Refused
from protocol.messages.describe_client_quotas import DESCRIBE_CLIENT_QUOTAS, EntityData, EntryData, ValueData
from protocol.schema import Struct

if TYPE_CHECKING:
    from broker.metadata_cache import MetadataCache


@handles(DESCRIBE_CLIENT_QUOTAS)
def describe_client_quotas(ctx: RequestContext, request: Struct, *, metadata: MetadataCache) -> Reply:
    components = [Component(each.entity_type, each.match_type, each.match) for each in request.components]
    try:
        found = describe_quotas(metadata.image, components, strict=request.strict)
    except Refused as refused:
        return DESCRIBE_CLIENT_QUOTAS.response(
            error_code=refused.error_code, error_message=refused.message, entries=None
        )
    return DESCRIBE_CLIENT_QUOTAS.response(
        error_message="",
        entries=[
            EntryData(
                entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                values=[ValueData(key=key, value=value) for key, value in quotas.items()],
            )
            for entity, quotas in found.items()
        ],
    )
