"""ApiVersions v0-v5: list the APIs, versions and features of this broker.

Versions: v3 the client's name and version (KIP-511), features (KIP-584); v4 features whose lowest level is 0
(KIP-1022); v5 the cluster and node that the client wants (KIP-1242). The dispatcher answers later versions itself:
UNSUPPORTED_VERSION in version 0.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping

from broker.requests.broker_identity import BrokerIdentity
from broker.requests.dispatcher import RequestContext, advertised_apis
from broker.requests.served_api import Reply, ServedApi, handles
from controller.quorum import FeatureSource
from metadata.features import SUPPORTED_FEATURES
from protocol.error_codes import ErrorCode
from protocol.messages.api_versions import API_VERSIONS, FinalizedFeatureKey, SupportedFeatureKey
from protocol.schema import Struct

log = logging.getLogger(__name__)

_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")

# The clients that are in the log already; bounded, since a client can send any name.
_seen: dict[tuple[str, str, str], None] = {}
_SEEN_LIMIT = 1000


@handles(API_VERSIONS)
def api_versions(
    ctx: RequestContext,
    request: Struct,
    *,
    features: FeatureSource,
    served_apis: Mapping[int, ServedApi],
    identity: BrokerIdentity,
) -> Reply:
    if ctx.api_version >= 3:
        name, version = request.client_software_name, request.client_software_version
        if not _NAME.fullmatch(name) or not _NAME.fullmatch(version):
            return API_VERSIONS.response(error_code=ErrorCode.INVALID_REQUEST)
        code = identity.check(request.cluster_id, request.node_id, ctx.connection.client_host)
        if code is not ErrorCode.NONE:
            return API_VERSIONS.response(error_code=code)
        _keep_client(ctx, name, version)
    finalized = features.features()
    return API_VERSIONS.response(
        api_keys=advertised_apis(served_apis.values()),
        supported_features=[
            SupportedFeatureKey(name=name, min_version=lowest, max_version=highest)
            for name, (lowest, highest) in SUPPORTED_FEATURES.items()
            if lowest > 0 or ctx.api_version >= 4
        ],
        finalized_features_epoch=finalized.epoch,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in finalized.levels.items()
        ],
    )


def _keep_client(ctx: RequestContext, name: str, version: str) -> None:
    connection = ctx.connection
    connection.client_software_name = name
    connection.client_software_version = version
    client = (connection.client_host, name, version)
    if client not in _seen:
        if len(_seen) >= _SEEN_LIMIT:
            _seen.clear()
        _seen[client] = None
        log.info("Client %s %s at %s (client id %s)", name, version, connection.client_host, ctx.client_id)
