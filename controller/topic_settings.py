"""Settings of topics that decisions about leaders need, from the metadata and the controller's own file."""

from __future__ import annotations

from config import BrokerConfig
from metadata.image import MetadataImage, ResourceType

UNCLEAN_ELECTIONS = "unclean.leader.election.enable"


class TopicSettings:
    """Looks settings up: the topic's, then this node's, then that of all brokers, then the file's."""

    def __init__(self, image: MetadataImage, config: BrokerConfig) -> None:
        self._image = image
        self._node = str(config.node_id)
        self._static = bool(config.static_values[UNCLEAN_ELECTIONS])

    def may_be_unclean(self, topic: str) -> bool:
        """Return whether the topic may elect a leader that lacks committed records."""
        for settings in (
            self._image.topic_config(topic),
            self._image.config(ResourceType.BROKER, self._node),
            self._image.config(ResourceType.BROKER, ""),
        ):
            found = settings.get(UNCLEAN_ELECTIONS)
            if found is not None:
                return found.strip().lower() == "true"
        return self._static
