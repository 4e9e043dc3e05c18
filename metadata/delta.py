"""The changes of the metadata that other rooms must follow: directories to create, configurations to apply."""

from __future__ import annotations

import msgspec
from msgspec import field

from metadata.image import QuotaEntity, TopicImage


class Delta(msgspec.Struct):
    """The changes of a series of records that code outside of the image has to follow."""

    created_partitions: list[tuple[TopicImage, int]] = field(default_factory=list)
    changed_partitions: dict[tuple[bytes, int], TopicImage] = field(default_factory=dict)  # (topic id, index) -> topic
    deleted_topics: list[TopicImage] = field(default_factory=list)
    changed_configs: set[tuple[int, str]] = field(default_factory=set)  # (resource type, name)
    changed_tokens: set[str] = field(default_factory=set)  # ids of delegation tokens
    changed_brokers: set[int] = field(default_factory=set)  # ids of brokers whose registration has changed
    changed_acls: bool = False
    changed_quotas: bool = False
    new_quotas: list[tuple[QuotaEntity, str]] = field(default_factory=list)  # quotas that are new

    @property
    def is_empty(self) -> bool:
        """Whether nothing was created, deleted, or reconfigured."""
        return not (self.created_partitions or self.changed_partitions or self.deleted_topics or self.changed_configs)
