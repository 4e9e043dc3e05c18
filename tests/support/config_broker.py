"""The part of a broker that configuration handlers need: values, and metadata that records change at once.

`change` sends an IncrementalAlterConfigs to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from broker.handlers.incremental_alter_configs import incremental_alter_configs
from broker.requests.binding import bind
from config import BrokerConfig, load
from metadata.create_topics import NewTopic
from metadata.framing import MetadataRecord
from metadata.image import MetadataImage, ResourceType
from metadata.replay import replay_all
from protocol.messages.incremental_alter_configs import (
    INCREMENTAL_ALTER_CONFIGS,
    AlterableConfig,
    AlterConfigsResource,
)
from protocol.schema import Api, Struct
from runtime.deferred import Deferred
from tests.support.images import cluster, with_topics
from tests.support.offered import Offered


class ConfigController:
    """A controller that replays records on submission and applies broker values, as the real one does."""

    def __init__(self, config: BrokerConfig, image: MetadataImage) -> None:
        self.image = image
        self.batches: list[list[MetadataRecord]] = []
        self._config = config
        self._apply()

    def submit(self, records: Sequence[MetadataRecord]) -> Deferred[None]:
        self.batches.append(list(records))
        replay_all(self.image, records)
        self._apply()
        return Deferred.resolved(None)

    def _apply(self) -> None:
        broker = ResourceType.BROKER
        self._config.apply_dynamic(self.image.config(broker, ""), self.image.config(broker, str(self._config.node_id)))


class ConfigBroker:
    """A broker with `config` and `controller.controller`, and a way to call handlers."""

    def __init__(self, *topics: str, settings: Mapping[str, str] | None = None) -> None:
        self.config = load(overrides=settings or {})
        self.guard = None
        image = with_topics(cluster(), *(NewTopic(name, 1, 1) for name in topics))
        self.controller = ConfigController(self.config, image)

    def ask(self, handler: Any, api: Api, version: int, request: Struct) -> Struct:
        """Return the handler's answer, which must be ready at once; request and answer are encoded and decoded."""
        connection = SimpleNamespace(is_forwarded=False)
        context: Any = SimpleNamespace(api=api, api_version=version, connection=connection)
        decoded, _ = api.request.decode(version, api.request.encode(version, request))
        reply = bind(handler, Offered(self))(context, decoded)
        answer = reply.result() if isinstance(reply, Deferred) else reply
        return api.response.decode(version, api.response.encode(version, answer))[0]


SET, DELETE, APPEND, SUBTRACT = range(4)
TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32

Change = tuple[str, int, str | None]


def change(
    broker: ConfigBroker, *resources: tuple[int, str, list[Change]], validate_only: bool = False
) -> list[tuple[int, str | None]]:
    """Send an IncrementalAlterConfigs; return the error code and message of each resource."""
    request = INCREMENTAL_ALTER_CONFIGS.request(
        resources=[
            AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[AlterableConfig(name=key, config_operation=how, value=to) for key, how, to in changes],
            )
            for kind, name, changes in resources
        ],
        validate_only=validate_only,
    )
    answer = broker.ask(incremental_alter_configs, INCREMENTAL_ALTER_CONFIGS, 1, request)
    return results(answer)


def results(answer: Struct) -> list[tuple[int, str | None]]:
    return [(each.error_code, each.error_message) for each in answer.responses]
