"""Records of configuration changes."""

from __future__ import annotations

from collections.abc import Mapping

from metadata.features import ELIGIBLE_LEADER_REPLICAS
from metadata.framing import MetadataRecord, new_record
from metadata.image import MetadataImage, ResourceType
from protocol.messages.cluster_metadata import ClearElrRecord, ConfigRecord

MIN_INSYNC_REPLICAS = "min.insync.replicas"


def alter_config(
    image: MetadataImage, resource_type: int, name: str, changes: Mapping[str, str | None]
) -> list[MetadataRecord]:
    """Return the records that set `changes` for a resource (None removes a setting). Unchanged settings need no record.

    A change of min.insync.replicas makes eligible leader replicas invalid, and so clears them (KIP-966).
    """
    current = image.config(resource_type, name)
    changed = {key: value for key, value in changes.items() if current.get(key) != value}
    records = [
        new_record(
            image.metadata_version, ConfigRecord, resource_type=resource_type, resource_name=name, name=key, value=value
        )
        for key, value in changed.items()
    ]
    if MIN_INSYNC_REPLICAS in changed and image.features.get(ELIGIBLE_LEADER_REPLICAS, 0):
        if resource_type == ResourceType.TOPIC:
            records.append(new_record(image.metadata_version, ClearElrRecord, topic_name=name))
        elif resource_type == ResourceType.BROKER:
            records.append(new_record(image.metadata_version, ClearElrRecord))
    return records
