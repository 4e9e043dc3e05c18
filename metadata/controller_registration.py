"""The registration of a controller with the active one (KIP-919)."""

from __future__ import annotations

from metadata.decision import Refused
from metadata.features import CONTROLLER_REGISTRATION_LEVEL
from metadata.framing import MetadataRecord, new_record
from metadata.image import MetadataImage
from protocol.error_codes import ErrorCode
from protocol.messages.cluster_metadata import RegisterControllerRecord
from protocol.messages.cluster_metadata.cluster import ControllerEndpoint, ControllerFeature
from protocol.schema import Struct


def register_controller(image: MetadataImage, request: Struct) -> MetadataRecord:
    """Decide about a ControllerRegistration request. Raises Refused: UNSUPPORTED_VERSION."""
    if image.metadata_version < CONTROLLER_REGISTRATION_LEVEL:
        message = "The current MetadataVersion is too old to support controller registrations."
        raise Refused(ErrorCode.UNSUPPORTED_VERSION, message)
    return new_record(
        image.metadata_version,
        RegisterControllerRecord,
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        zk_migration_ready=request.zk_migration_ready,
        end_points=[
            ControllerEndpoint(name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol)
            for each in request.listeners
        ],
        features=[
            ControllerFeature(
                name=each.name,
                min_supported_version=each.min_supported_version,
                max_supported_version=each.max_supported_version,
            )
            for each in request.features
        ],
    )
