"""Replace the image by that of a snapshot, with the changes that code outside of the image has to follow."""

from __future__ import annotations

from metadata.delta import Delta
from metadata.image import MetadataImage


def replace_image(image: MetadataImage, new: MetadataImage) -> Delta:
    """Give `image` the state of `new`, and return the difference.

    Partitions that are in both are neither created nor deleted, so their logs stay open. A topic that was deleted and
    created again has another id, so it is both.
    """
    delta = _difference(image, new)
    for name in MetadataImage.__struct_fields__:
        setattr(image, name, getattr(new, name))
    return delta


def _difference(old: MetadataImage, new: MetadataImage) -> Delta:
    delta = Delta(
        deleted_topics=[each for topic_id, each in old.topics_by_id.items() if topic_id not in new.topics_by_id],
        changed_configs={
            each for each in old.configs.keys() | new.configs.keys() if old.configs.get(each) != new.configs.get(each)
        },
        changed_tokens={
            each
            for each in old.delegation_tokens.keys() | new.delegation_tokens.keys()
            if old.delegation_tokens.get(each) != new.delegation_tokens.get(each)
        },
        changed_brokers={
            each for each in old.brokers.keys() | new.brokers.keys() if old.brokers.get(each) != new.brokers.get(each)
        },
        changed_acls=old.acls != new.acls,
        changed_quotas=old.client_quotas != new.client_quotas,
    )
    for topic_id, topic in new.topics_by_id.items():
        before = old.topics_by_id.get(topic_id)
        known = before.partitions if before is not None else {}
        for index, registration in topic.partitions.items():
            if index not in known:
                delta.created_partitions.append((topic, index))
            elif known[index] != registration:
                delta.changed_partitions[topic_id, index] = topic
    return delta
