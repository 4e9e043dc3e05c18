"""Faults of the metadata log, of lifecycles, and of the controller."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from metadata import partition_change
from metadata.partition_change import Elected, Wanted
from protocol.error_codes import ErrorCode
from replication.lifecycle import BrokerLifecycle
from replication.observing import Observer
from tests.simulation import controller, elections
from tests.simulation.broker import Process
from tests.simulation.controller import Controller
from tests.simulation.metadata import Transactions
from tests.simulation.mutation import mutation

_take = Observer._take


@mutation(
    "uncommitted-metadata",
    "records above the high watermark of the metadata log are applied (KIP-595)",
    (Observer, "_take"),
)
def _take_all(self: Observer, data: Any) -> None:
    _take(self, data)
    self.high_watermark = self._log.log_end_offset


@mutation("metadata-diverges", "an observer does not truncate its metadata log (KIP-595)", (Observer, "_take"))
def _take_diverging(self: Observer, data: Any) -> None:
    if data.diverging_epoch.end_offset < 0:
        _take(self, data)
    else:
        self.high_watermark = max(self.high_watermark, min(data.high_watermark, self._log.log_end_offset))


@mutation(
    "half-a-transaction", "the records of an open metadata transaction are applied (KIP-868)", (Transactions, "take")
)
def _take_open(self: Transactions, offset: int, record: Any) -> Any:
    return [(offset, record)]


_take_heartbeat = BrokerLifecycle._take_heartbeat


@mutation(
    "hosts-before-caught-up",
    "a broker hosts partitions before it has applied its own registration",
    (BrokerLifecycle, "_take_heartbeat"),
)
def _take_early(self: BrokerLifecycle, response: Any, asked: Any) -> None:
    response.is_caught_up = True
    _take_heartbeat(self, response, asked)


_beaten = Process.beaten


@mutation("clean-after-crash", "a broker that crashed says that it stopped in order (KIP-966)", (Process, "beaten"))
def _beaten_clean(self: Process, response: Any, now_ms: int) -> None:
    _beaten(self, response, now_ms)
    self.disk.mark_clean(self.life.broker_epoch)


def _stop_without_flush(self: Process) -> None:
    for key in list(self.leaders.partitions):
        self.leaders.resign(key)
    self.disk.mark_clean(self.life.broker_epoch)


mutation(
    "clean-without-flush",
    "a broker stops in order before its records are flushed (KIP-966)",
    (Process, "stop"),
    is_rare=True,
)(_stop_without_flush)

_change = elections.change


@mutation(
    "unclean-replica-stays",
    "a broker that crashed stays in the ISR and the ELR (KIP-966)",
    (controller, "change"),
    own_controller=False,
)
def _change_unclean(old: Any, acceptable: Any, min_isr: int, wanted: Wanted) -> Any:
    return _change(old, acceptable, min_isr, replace(wanted, isr=old.isr if wanted.lost else wanted.isr, lost=()))


@mutation("elect-any-replica", "the controller elects a replica that is not in sync", (partition_change, "_elect"))
def _elect(partition: Any, target: Any, eligible: Any, rules: Any, election: Any) -> Elected:
    found = [each for each in (partition.leader, *partition.replicas) if rules.may_lead(each)]
    return Elected(found[0] if found else -1)


_refusal = Controller._refusal


@mutation(
    "controller-ignores-epochs",
    "the controller accepts a restarted broker in the ISR (KIP-903)",
    (Controller, "_refusal"),
    is_rare=True,
    own_controller=False,
)
def _refusal_lax(self: Controller, old: Any, broker_id: int, asked: Any) -> int:
    error = _refusal(self, old, broker_id, asked)
    return ErrorCode.NONE if error == ErrorCode.INELIGIBLE_REPLICA else error


@mutation(
    "controller-ignores-partition-epoch",
    "the controller accepts an ISR that is based on an older one",
    (Controller, "_refusal"),
    is_rare=True,
    own_controller=False,
)
def _refusal_old(self: Controller, old: Any, broker_id: int, asked: Any) -> int:
    error = _refusal(self, old, broker_id, asked)
    return ErrorCode.NONE if error == ErrorCode.INVALID_UPDATE_VERSION else error


@mutation(
    "controller-ignores-leader-epoch",
    "the controller takes the ISR of a former leader",
    (Controller, "_refusal"),
    own_controller=False,
)
def _refusal_former(self: Controller, old: Any, broker_id: int, asked: Any) -> int:
    error = _refusal(self, old, broker_id, asked)
    return ErrorCode.NONE if error in (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.INVALID_REQUEST) else error
