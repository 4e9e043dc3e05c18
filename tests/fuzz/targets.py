"""All code that reads foreign bytes, as functions that return normally or raise an exception for an error of ours.

An input of the fuzzer is the letter of a target and its bytes. A target catches the exceptions that it declares for bad
bytes; any other exception is a finding.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.fuzz.logs import log_directory
from tests.fuzz.records import message_sets, record_batches
from tests.fuzz.requests import frames, request
from tests.fuzz.stored import checkpoints, coordinator_records, metadata_record, producer_snapshot
from tests.fuzz.texts import jaas, principal_rules, properties, scram

Target = Callable[[bytes], None]

TARGETS: dict[str, Target] = {
    "f": frames,
    "r": request,
    "b": record_batches,
    "m": message_sets,
    "l": log_directory,
    "k": checkpoints,
    "s": producer_snapshot,
    "c": coordinator_records,
    "d": metadata_record,
    "p": properties,
    "j": jaas,
    "u": principal_rules,
    "x": scram,
}


def one_input(data: bytes) -> bool:
    """Pass `data` to the target that it names. Return whether the target exists."""
    target = TARGETS.get(chr(data[0])) if data else None
    if target is None:
        return False
    target(data[1:])
    return True
