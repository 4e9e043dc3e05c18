"""The quorum of the metadata log, which is this node alone, and the feature levels that it has agreed on.

With kraft.version 1 the log names the voters (KIP-853), with 0 the configuration does. It is in control records
of the metadata log; all other levels are part of the image.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NoReturn, Protocol

import msgspec

from config import BrokerConfig
from controller.endpoints import endpoints
from controller.formatting import DEFAULT_CONTROLLER, quorum_of
from metadata.decision import Refused
from metadata.feature_updates import FeatureUpdate, update_features
from metadata.features import KRAFT_VERSION
from metadata.image import Endpoint, MetadataImage
from protocol.error_codes import ErrorCode
from protocol.id_text import id_text
from protocol.primitives import ZERO_UUID
from runtime.deferred import Deferred
from runtime.log_limit import LimitedLog

if TYPE_CHECKING:
    from controller.controller import Controller
    from controller.metadata_log import MetadataLog


_log = LimitedLog(logging.getLogger(__name__))  # a client may repeat its request

_ONLY_VOTER = "this node stays the only voter of its quorum. `pybroker cluster handover` names other voters"


def log_refused_voter(api_name: str, node_id: int, reason: str) -> None:
    """Log that a request does not change the voters, and the command that does."""
    _log.warning("%s of voter %d is refused (%s): %s", api_name, node_id, reason, _ONLY_VOTER)


class Features(msgspec.Struct, frozen=True):
    """The feature levels in force, and the metadata offset to which they belong."""

    epoch: int
    levels: Mapping[str, int]


class Voter(msgspec.Struct, frozen=True):
    """A voter of the quorum. `directory_id` has 16 bytes, zeros if the log does not name voters.

    `listeners` are the name, host and port of each.
    """

    node_id: int
    directory_id: bytes
    listeners: tuple[tuple[str, str, int], ...]


def features_of(image: MetadataImage, kraft_version: int, last_offset: int) -> Features:
    """Return the features in force at an offset of the metadata log."""
    levels: Mapping[str, int] = image.features
    if kraft_version:
        levels = {KRAFT_VERSION: kraft_version, **levels}
    return Features(last_offset, levels)


class FeatureSource(Protocol):
    """Knows the feature levels in force."""

    def features(self) -> Features:
        """Return the levels, and the metadata offset that they are of."""


class MetadataQuorum:
    """The quorum of a single node, its only voter and always its leader. `directory_ids`: log directory ids by path.

    `listeners` are the addresses of its controller listeners, where they are open.
    """

    def __init__(
        self,
        config: BrokerConfig,
        metadata_log: MetadataLog,
        directory_ids: Mapping[str, bytes],
        controller: Controller,
        now_ms: Callable[[], int],
        listeners: Sequence[Endpoint] = (),
    ) -> None:
        self._config = config
        self._listeners = listeners or endpoints(config.controller_listeners)
        self._log = metadata_log
        self._directory_ids = directory_ids
        self._controller = controller
        self._now_ms = now_ms

    @property
    def epoch(self) -> int:
        """The leader epoch."""
        return self._log.epoch

    @property
    def leader_id(self) -> int:
        """The controller that leads: this node."""
        return self._config.node_id

    @property
    def end_offset(self) -> int:
        """The end of the log, which is also the end of its committed part."""
        return self._log.end_offset

    high_watermark = end_offset

    @property
    def kraft_version(self) -> int:
        return self._log.quorum.kraft_version

    @property
    def voter(self) -> Voter:
        """This node, as the log names it or, if the log names no voters, as the configuration does."""
        named = self._log.quorum.voters
        if named is None:
            found = self._listeners or [DEFAULT_CONTROLLER]
            listeners = tuple((each.name, each.host, each.port) for each in found)
            return Voter(self._config.node_id, ZERO_UUID, listeners)
        (voter,) = named.voters
        listeners = tuple((each.name, each.host, each.port) for each in voter.endpoints)
        return Voter(voter.voter_id, voter.voter_directory_id, listeners)

    # -- features ----------------------------------------------------------------------------------------------------

    def features(self) -> Features:
        """Return the features in force."""
        return features_of(self._controller.image, self.kraft_version, self.end_offset - 1)

    def update_features(self, updates: Sequence[FeatureUpdate], *, validate_only: bool = False) -> Deferred[None]:
        """Change feature levels, all or none. Raises Refused."""
        decided = update_features(
            self._controller.image,
            updates,
            node_id=self._config.node_id,
            kraft_version=self.kraft_version,
            min_insync_replicas=self._config.get_int("min.insync.replicas"),
            others=self._controller.features_of_others(),
        )
        if validate_only:
            return Deferred.resolved(None)
        if decided.kraft_version is not None:
            self._name_voter()
        done = self._controller.submit(decided.records)
        return done.then(lambda _: None) if decided.records else self._controller.sync_now()

    def _name_voter(self) -> None:
        """Change to kraft.version 1: the log names this node as voter, with its endpoints."""
        directory_id = self._directory_ids[self._config.metadata_log_dir.rstrip("/")]
        self._log.begin_quorum(quorum_of(self._config.node_id, directory_id, self._listeners), self._now_ms())

    # -- voters ------------------------------------------------------------------------------------------------------

    def add_voter(self, cluster_id: str | None, voter: Voter) -> NoReturn:
        """Raise Refused: no other voter can join, because this broker does not replicate the log."""
        self._check_cluster(cluster_id)
        if voter.node_id < 0 or voter.directory_id == ZERO_UUID:
            raise Refused(ErrorCode.INVALID_REQUEST, "Add voter request didn't include a valid voter")
        needed = self.voter.listeners[0][0]
        if needed not in [name for name, _, _ in voter.listeners]:
            given = ", ".join(f"ListenerName({name})={host}:{port}" for name, host, port in voter.listeners)
            message = (
                f"Add voter request didn't include the endpoint (Endpoints(endpoints={{{given}}})) "
                f"for the default listener ListenerName({needed})"
            )
            raise Refused(ErrorCode.INVALID_REQUEST, message)
        if not self.kraft_version:
            raise _unsupported("adding")
        own = self.voter
        if voter.node_id == own.node_id:
            message = f"The voter id for {_key(voter)} is already part of the set of voters [{_key(own)}]."
            raise Refused(ErrorCode.DUPLICATE_VOTER, message)
        message = f"New voter {_key(voter)} is not ready to receive requests, because {_ONLY_VOTER}"
        raise Refused(ErrorCode.REQUEST_TIMED_OUT, message)

    def remove_voter(self, cluster_id: str | None, voter: Voter) -> NoReturn:
        """Raise Refused: the last voter cannot be removed, and there are no others."""
        self._check_cluster(cluster_id)
        if voter.node_id < 0 or voter.directory_id == ZERO_UUID:
            raise Refused(ErrorCode.INVALID_REQUEST, "Remove voter request didn't include a valid voter")
        if not self.kraft_version:
            raise _unsupported("removing")
        message = f"Cannot remove voter {_key(voter)} from the set of voters [{_key(self.voter)}]"
        raise Refused(ErrorCode.VOTER_NOT_FOUND, message)

    def _check_cluster(self, cluster_id: str | None) -> None:
        own = self._controller.cluster_id
        if cluster_id not in (None, own):
            message = f'The given id "{cluster_id}" doesn\'t match the cluster id "{own}"'
            raise Refused(ErrorCode.INCONSISTENT_CLUSTER_ID, message)


def _unsupported(what: str) -> Refused:
    message = f"Cluster doesn't support {what} voter because the kraft.version feature is 0"
    return Refused(ErrorCode.UNSUPPORTED_VERSION, message)


def _key(voter: Voter) -> str:
    return f"ReplicaKey(id={voter.node_id}, directoryId={id_text(voter.directory_id)})"
