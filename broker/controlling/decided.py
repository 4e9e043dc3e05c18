"""Answers that the controller decides."""

from __future__ import annotations

import logging

from protocol.error_codes import ErrorCode
from protocol.schema import Api, Struct
from runtime.deferred import Deferred
from runtime.log_limit import LimitedLog
from storage.errors import StorageError

_log = LimitedLog(logging.getLogger(__name__), lines=1)


def decided(api: Api, answer: Deferred[Struct]) -> Deferred[Struct]:
    """Return the answer; NOT_CONTROLLER if the metadata log can no longer be written: then the broker tries again."""
    settled: Deferred[Struct] = Deferred()

    def take(done: Deferred[Struct]) -> None:
        try:
            settled.resolve(done.result())
        except (StorageError, OSError) as error:
            _log.warning("%s is not answered, because the metadata log failed: %s", api.name, error)
            settled.resolve(api.response(error_code=ErrorCode.NOT_CONTROLLER))
        except Exception as error:
            settled.fail(error)

    answer.add_done_callback(take)
    settled.on_cancel(answer.cancel)
    return settled
