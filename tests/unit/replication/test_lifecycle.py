"""A broker's registration, heartbeats and controlled shutdown."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.broker_heartbeat import BROKER_HEARTBEAT
from protocol.messages.broker_registration import BROKER_REGISTRATION, Feature, Listener
from protocol.schema import Struct
from replication.lifecycle import BrokerLifecycle, Identity, LifecycleState, LifecycleTimes, RegistrationRefused

DIRECTORY, OTHER = bytes([7]) * 16, bytes([3]) * 16
IDENTITY = Identity(
    node_id=3,
    cluster_id="cluster",
    incarnation_id=bytes([9]) * 16,
    listeners=[Listener(name="PLAINTEXT", host="localhost", port=9092, security_protocol=0)],
    features=[Feature(name="metadata.version", min_supported_version=7, max_supported_version=33)],
    rack="r1",
    log_dirs=[DIRECTORY, OTHER],
)


class Life:
    """A lifecycle with its clock."""

    def __init__(self, state: LifecycleState = LifecycleState.REGISTERING) -> None:
        self.now = 0
        self.life = BrokerLifecycle(IDENTITY, LifecycleTimes(), 0)
        if state > LifecycleState.REGISTERING:
            self.registered()
        if state > LifecycleState.CATCHING_UP:
            self.beat(is_caught_up=True)
        if state > LifecycleState.RECOVERING:
            self.life.logs_are_open(self.now)
        if state > LifecycleState.UNFENCING:
            self.beat(is_caught_up=True, is_fenced=False)
        if state > LifecycleState.RUNNING:
            self.life.leave(self.now)
        assert self.life.state is state

    def request(self, after_ms: int = 0) -> Struct:
        self.now += after_ms
        found = self.life.next_request(self.now)
        assert found is not None
        return found

    def registered(self) -> None:
        self.request()
        self.life.answered(BROKER_REGISTRATION.response(broker_epoch=55), self.now)

    def beat(self, after_ms: int = 0, **answer: Any) -> Struct:
        found = self.request(after_ms)
        self.life.answered(BROKER_HEARTBEAT.response(**answer), self.now)
        return found

    def state(self) -> LifecycleState:
        return self.life.state

    def waits(self) -> int:
        return self.life.due_ms - self.now


def test_registration_names_the_broker() -> None:
    request = Life().request()
    again, _ = BROKER_REGISTRATION.request.decode(4, BROKER_REGISTRATION.request.encode(4, request))
    assert (again.broker_id, again.cluster_id, again.incarnation_id) == (3, "cluster", bytes([9]) * 16)
    assert (again.rack, again.log_dirs, again.previous_broker_epoch) == ("r1", [OTHER, DIRECTORY], -1)
    assert again.listeners[0].port == 9092
    assert again.features[0].max_supported_version == 33


def test_a_controller_that_is_found_gets_the_request_that_failed_at_once() -> None:
    life = Life(LifecycleState.RUNNING)
    for _ in range(8):
        life.request(life.waits())
        life.life.failed(life.now)
    assert life.waits() == LifecycleTimes().session_ms // 2
    life.life.controller_found(life.now)
    assert life.waits() == 0
    life.request()
    life.life.failed(life.now)
    assert 0 < life.waits() <= 100  # the waits begin again
    life.beat(life.waits(), is_fenced=False)
    usual = life.waits()
    life.life.controller_found(life.now)  # nothing has failed
    assert life.waits() == usual


def test_one_request_at_a_time() -> None:
    life = Life()
    life.request()
    assert life.life.next_request(99_999) is None


def test_way_from_the_start_to_running() -> None:
    """As recorded of Apache Kafka 4.3.1: heartbeats each 10 ms until caught up, then each 2 s; unfenced at last."""
    life = Life(LifecycleState.CATCHING_UP)
    assert life.life.broker_epoch == 55
    first = life.beat(is_caught_up=False)
    assert (first.want_fence, first.want_shut_down, first.broker_epoch) == (True, False, 55)
    assert life.waits() == 10
    life.life.note_applied(60)
    assert life.beat(10, is_caught_up=True).current_metadata_offset == 60
    assert life.state() is LifecycleState.RECOVERING
    assert life.waits() == 2000
    assert life.beat(2000, is_caught_up=True).want_fence
    life.now += 100
    life.life.logs_are_open(life.now)
    assert life.waits() == 0
    assert not life.beat(is_caught_up=True, is_fenced=False).want_fence
    assert life.state() is LifecycleState.RUNNING
    assert not life.life.fenced
    assert life.waits() == 2000


def test_answer_from_before_the_logs_were_open_does_not_unfence() -> None:
    life = Life(LifecycleState.RECOVERING)
    life.request(2000)
    life.life.logs_are_open(life.now)
    life.life.answered(BROKER_HEARTBEAT.response(is_caught_up=True, is_fenced=True), life.now)
    assert life.state() is LifecycleState.UNFENCING
    assert life.waits() == 0
    assert not life.request().want_fence


def test_old_session_is_waited_for() -> None:
    """DUPLICATE_BROKER_REGISTRATION until the session of the last run has ended."""
    life = Life()
    tries = 0
    while life.now < 9_000:
        life.request(life.waits())
        life.life.answered(BROKER_REGISTRATION.response(error_code=ErrorCode.DUPLICATE_BROKER_REGISTRATION), life.now)
        tries += 1
    assert tries < 25
    assert life.waits() <= 500
    life.now = life.life.due_ms
    life.registered()
    assert life.state() is LifecycleState.CATCHING_UP


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.INCONSISTENT_CLUSTER_ID,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_REGISTRATION,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ],
)
def test_refusals_that_no_try_can_change(code: ErrorCode) -> None:
    life = Life()
    life.request()
    with pytest.raises(RegistrationRefused):
        life.life.answered(BROKER_REGISTRATION.response(error_code=code), 0)


def test_broker_that_cannot_register_gives_up() -> None:
    """initial.broker.registration.timeout.ms."""
    life = Life()
    life.request()
    life.life.failed(0)
    with pytest.raises(RegistrationRefused, match="60000 ms"):
        life.life.next_request(60_000)


@pytest.mark.parametrize(
    "code", [ErrorCode.STALE_BROKER_EPOCH, ErrorCode.NOT_CONTROLLER, ErrorCode.UNSUPPORTED_VERSION]
)
def test_errors_of_heartbeats_are_tried_again(code: ErrorCode) -> None:
    """With growing pauses below half of a session."""
    life = Life(LifecycleState.RUNNING)
    pauses = []
    for _ in range(8):
        life.beat(life.waits(), error_code=code)
        pauses.append(life.waits())
    assert pauses[:3] == [100, 200, 400]
    assert pauses[-1] == 4500
    life.beat(life.waits(), is_caught_up=True, is_fenced=False)
    assert life.waits() == 2000


def test_broker_that_another_one_has_replaced_stays_out() -> None:
    """As in Apache Kafka. The message names the remedy."""
    life = Life(LifecycleState.RUNNING)
    life.beat(life.waits(), error_code=ErrorCode.STALE_BROKER_EPOCH)
    assert life.life.state is LifecycleState.RUNNING
    assert "another process with node.id 3 has registered" in str(life.life.last_error)


def test_fenced_broker_goes_on() -> None:
    life = Life(LifecycleState.RUNNING)
    life.beat(2000, is_caught_up=True, is_fenced=True)
    assert life.life.fenced
    assert life.state() is LifecycleState.RUNNING
    assert not life.beat(2000, is_caught_up=True, is_fenced=False).want_fence
    assert not life.life.fenced


def test_failed_directory_that_no_controller_hears_of_ends_the_broker() -> None:
    """log.dir.failure.timeout.ms: until then others believe that its replicas are there (KIP-858)."""
    life = Life(LifecycleState.RUNNING)
    life.life.directory_failed(DIRECTORY, life.now)
    failed_at = life.now
    life.request()
    life.life.failed(life.now, "no response")
    while life.life.due_ms < failed_at + 30_000:
        life.request(life.life.due_ms - life.now)
        life.life.failed(life.now, "no response")
    with pytest.raises(RegistrationRefused, match="no controller heard of it for 30000 ms"):
        life.life.next_request(life.life.due_ms)


def test_reported_directory_has_no_deadline() -> None:
    """Not even if a heartbeat was under way when it failed, which did not name it."""
    life = Life(LifecycleState.RUNNING)
    life.request(life.life.due_ms - life.now)
    life.life.directory_failed(DIRECTORY, life.now)
    life.life.answered(BROKER_HEARTBEAT.response(is_fenced=False), life.now)
    assert life.beat(is_fenced=False).offline_log_dirs == [DIRECTORY]
    assert life.request(60_000).offline_log_dirs == [DIRECTORY]


def test_failed_directory_is_reported_at_once() -> None:
    """Also if a heartbeat is in flight."""
    life = Life(LifecycleState.RUNNING)
    life.life.directory_failed(DIRECTORY, life.now)
    assert life.beat(is_fenced=False).offline_log_dirs == [DIRECTORY]
    life.request(2000)
    life.life.directory_failed(OTHER, life.now)
    life.life.answered(BROKER_HEARTBEAT.response(is_fenced=False), life.now)
    assert life.request().offline_log_dirs == [OTHER, DIRECTORY]


def test_cordoned_directories_are_named() -> None:
    life = Life(LifecycleState.RUNNING)
    assert life.beat(2000, is_fenced=False).cordoned_log_dirs is None
    life.life.cordon([DIRECTORY], life.now)
    assert life.beat(is_fenced=False).cordoned_log_dirs == [DIRECTORY]


def test_controlled_shutdown() -> None:
    life = Life(LifecycleState.LEAVING)
    assert life.beat(is_fenced=False, should_shut_down=False).want_shut_down
    assert life.waits() == 2000
    life.beat(2000, is_fenced=True, should_shut_down=True)
    assert life.state() is LifecycleState.ENDED
    assert life.life.next_request(99_999) is None


def test_heartbeat_in_flight_does_not_end_the_shutdown() -> None:
    life = Life(LifecycleState.RUNNING)
    life.request(2000)
    life.life.leave(life.now)
    life.life.answered(BROKER_HEARTBEAT.response(is_fenced=False, should_shut_down=True), life.now)
    assert life.state() is LifecycleState.LEAVING
    assert life.request().want_shut_down


@pytest.mark.parametrize("state", list(LifecycleState)[:4])
def test_broker_that_does_not_run_yet_ends_at_once(state: LifecycleState) -> None:
    life = Life(state)
    life.life.leave(life.now)
    assert life.state() is LifecycleState.ENDED


def test_registration_is_sent_again() -> None:
    """Once the controllers keep log directories: the state stays, and heartbeats go on."""
    life = Life(LifecycleState.RUNNING)
    life.life.register_again(life.now)
    assert life.request().incarnation_id == IDENTITY.incarnation_id
    life.life.failed(life.now)
    assert life.request(after_ms=life.waits()).log_dirs == sorted(IDENTITY.log_dirs)
    life.life.answered(BROKER_REGISTRATION.response(broker_epoch=55), life.now)
    assert (life.state(), life.life.broker_epoch) == (LifecycleState.RUNNING, 55)
    assert life.beat(is_caught_up=True).broker_epoch == 55
