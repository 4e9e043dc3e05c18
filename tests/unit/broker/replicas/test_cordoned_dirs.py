"""Cordoned directories are marked for the creation of logs, and recorded for the placement of partitions."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker.handlers.update_features import update_features
from broker.replicas.cordoned_dirs import KEY, CordonRecorder, mark_cordoned
from metadata.features import CORDONED_DIRECTORIES_LEVEL, METADATA_VERSION
from protocol.messages.update_features import UPDATE_FEATURES
from runtime.deferred import Deferred
from storage.log_manager import LogManager
from tests.support.controllers import ControllerHarness

IDS = (b"first directory.", b"second directory")


@pytest.fixture
def harness(tmp_path: Path) -> ControllerHarness:
    paths = [str(tmp_path / name) for name in ("a", "b")]
    overrides = {"log.dirs": ",".join(paths), KEY: paths[1]}
    made = ControllerHarness(overrides, directories=dict(zip(paths, IDS, strict=True)))
    made.broker.logs = LogManager(paths)
    made.broker.directory_ids = dict(zip(paths, IDS, strict=True))
    made.broker.loop = SimpleNamespace(call_soon=lambda function: function())
    return made


def recorder(harness: ControllerHarness) -> CordonRecorder:
    broker = harness.broker
    return CordonRecorder(harness.config, broker.logs, broker.directory_ids, harness.controller, broker.loop.call_soon)


def state(harness: ControllerHarness) -> tuple[list[bool], set[bytes], bool]:
    registration = harness.controller.image.brokers[1]
    marks = [directory.is_cordoned for directory in harness.broker.logs.directories]
    return marks, set(registration.cordoned_log_directories or ()), registration.is_cordoned


def test_the_configured_directories_and_each_change(harness: ControllerHarness) -> None:
    """One directory, all by the asterisk, all by name, none. Log creation and the metadata change at once."""
    mark_cordoned(harness.config, harness.broker.logs)
    recorder(harness).start()
    first, second = (directory.path for directory in harness.broker.logs.directories)
    assert state(harness) == ([False, True], {IDS[1]}, False)
    harness.config.apply_dynamic({}, {KEY: "*"})
    assert state(harness) == ([True, True], set(IDS), True)
    harness.config.apply_dynamic({}, {KEY: first})
    assert state(harness) == ([True, False], {IDS[0]}, False)
    harness.config.apply_dynamic({}, {KEY: f"{second},{first}"})
    assert state(harness) == ([True, True], set(IDS), True)
    harness.config.apply_dynamic({}, {KEY: ""})
    assert state(harness) == ([False, False], set(), False)


def test_known_state_is_not_recorded_again(harness: ControllerHarness) -> None:
    """The metadata log has no new record if other keys change, or if the same directories are written differently."""
    mark_cordoned(harness.config, harness.broker.logs)
    recorder(harness).start()
    count = len(harness.log.batches)
    second = harness.broker.logs.directories[1].path
    harness.config.apply_dynamic({}, {"num.io.threads": "9"})
    harness.config.apply_dynamic({}, {KEY: f"{second},{second}"})
    assert len(harness.log.batches) == count


@pytest.mark.parametrize("validate_only", [False, True])
def test_they_take_effect_once_metadata_version_allows(harness: ControllerHarness, validate_only: bool) -> None:
    features = harness.controller.image.features
    features[METADATA_VERSION] = CORDONED_DIRECTORIES_LEVEL - 1

    def raised(_: object, *, validate_only: bool) -> Deferred[None]:
        if not validate_only:
            features[METADATA_VERSION] = CORDONED_DIRECTORIES_LEVEL
        return Deferred.resolved(None)

    mark_cordoned(harness.config, harness.broker.logs)
    recorder(harness).start()
    assert state(harness) == ([False, True], set(), False)
    harness.broker.quorum = SimpleNamespace(update_features=raised)
    context: Any = SimpleNamespace(api_version=2)
    request = UPDATE_FEATURES.request(feature_updates=[], validate_only=validate_only)
    reply = update_features(
        context, request, quorum=harness.broker.quorum, record_cordoned=lambda: recorder(harness).record()
    )
    assert isinstance(reply, Deferred)
    assert reply.result().error_code == 0
    assert state(harness) == ([False, True], set() if validate_only else {IDS[1]}, False)
