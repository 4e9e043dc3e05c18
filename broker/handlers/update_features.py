"""UpdateFeatures v0-v2: raise or lower feature levels (KIP-584), or only validate the request.

Versions: v0 only raises, whatever its flag for downgrades says, as in Kafka 4; v1 kinds of upgrade, validate only
(KIP-778); v2 without a result for each feature, since either all are granted or none (KIP-1022).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from metadata.decision import Refused
from metadata.feature_updates import FeatureUpdate
from protocol.error_codes import ErrorCode
from protocol.messages.update_features import UPDATE_FEATURES, UpdatableFeatureResult
from protocol.schema import Struct

if TYPE_CHECKING:
    from controller.quorum import MetadataQuorum

_FAILED = "The update failed for all features since the following feature had an error: "


RecordCordoned: TypeAlias = Callable[[], None]
"""Records in the metadata which log directories are cordoned, if its version has a place for that."""


@handles(UPDATE_FEATURES)
def update_features(
    ctx: RequestContext, request: Struct, *, quorum: MetadataQuorum, record_cordoned: RecordCordoned
) -> Reply:
    updates = [
        FeatureUpdate(each.feature, each.max_version_level, each.upgrade_type) for each in request.feature_updates
    ]
    try:
        updated = quorum.update_features(updates, validate_only=request.validate_only)
    except Refused as refused:
        return UPDATE_FEATURES.response(error_code=refused.error_code, error_message=f"{_FAILED}{refused.message}")
    granted = [
        UpdatableFeatureResult(feature=each.name, error_code=ErrorCode.NONE, error_message="NONE") for each in updates
    ]

    def answer(_: None) -> Struct:
        if not request.validate_only:
            record_cordoned()  # the new level may have a place for them in the metadata
        return UPDATE_FEATURES.response(error_message=None, results=granted if ctx.api_version < 2 else [])

    return updated.then(answer)
