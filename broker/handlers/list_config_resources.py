"""ListConfigResources v0-v1: list the resources that have a configuration.

Versions: v0 client metrics subscriptions only (KIP-714, then named ListClientMetricsResources); v1 also groups, topics,
brokers and loggers, by type (KIP-1142). Groups and subscriptions are listed if they have values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from metadata.image import MetadataImage, ResourceType
from protocol.error_codes import ErrorCode
from protocol.messages.list_config_resources import LIST_CONFIG_RESOURCES, ConfigResource
from protocol.schema import Struct

if TYPE_CHECKING:
    from broker.metadata_cache import MetadataCache

_ALL = (
    ResourceType.GROUP,
    ResourceType.CLIENT_METRICS,
    ResourceType.BROKER_LOGGER,
    ResourceType.BROKER,
    ResourceType.TOPIC,
)
"""The types in the order of the answer."""


@handles(LIST_CONFIG_RESOURCES)
def list_config_resources(ctx: RequestContext, request: Struct, *, metadata: MetadataCache) -> Reply:
    """No types mean all of them. An unknown type is UNSUPPORTED_VERSION for the whole request."""
    wanted = request.resource_types if ctx.api_version > 0 else [ResourceType.CLIENT_METRICS]
    if not set(wanted) <= set(_ALL):
        return LIST_CONFIG_RESOURCES.response(error_code=ErrorCode.UNSUPPORTED_VERSION)
    return LIST_CONFIG_RESOURCES.response(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind)
            for kind in _ALL
            if not wanted or kind in wanted
            for name in _names(metadata.image, kind)
        ]
    )


def _names(image: MetadataImage, kind: ResourceType) -> list[str]:
    if kind == ResourceType.TOPIC:
        return list(image.topics_by_name)
    if kind in (ResourceType.BROKER, ResourceType.BROKER_LOGGER):
        return [str(broker) for broker in sorted(image.brokers)]
    return sorted(name for resource, name in image.configs if resource == kind)
