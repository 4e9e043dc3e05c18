"""Handlers of a worker need nothing that only the main process has."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker.requests.dispatcher import Waiting
from broker.workers.messages import Stop
from broker.workers.requests import SERVED_HERE
from protocol.primitives import records
from protocol.registry import API_BY_KEY
from protocol.schema import Array, StructType
from tests.support.logs import batch
from tests.support.network import request_frame
from tests.support.nodes import TOPIC_ID
from tests.support.own_worker import TOPIC, Owner, done, run

CONNECTION: Any = SimpleNamespace(
    listener_name="PLAINTEXT",
    security_protocol="PLAINTEXT",
    client_host="192.0.2.1",
    client_port=1,
    local_host="192.0.2.7",
    local_port=9093,
    principal="User:ANONYMOUS",
    client_software_name="n",
    client_software_version="v",
    is_closed=False,
    on_close=None,
)
GIVEN = {
    "name": TOPIC,
    "topic": TOPIC,
    "topic_name": TOPIC,
    "topic_id": TOPIC_ID,
    "partition_max_bytes": 1000,
    "acks": 1,
    "client_software_name": "n",
    "client_software_version": "v",
}


def filled(kind: StructType, version: int, directory: str) -> dict[str, Any]:
    """Return fields of a request: one element in each array, a partition of the worker, else defaults."""
    fields: dict[str, Any] = {}
    for field in kind.fields:
        if version not in field.versions:
            continue
        if isinstance(field.type, Array):
            element = field.type.element
            if isinstance(element, StructType):
                fields[field.name] = [element(**filled(element, version, directory))]
            elif element.name == "string":
                fields[field.name] = [TOPIC]
            else:
                fields[field.name] = [TOPIC_ID if element.name == "uuid" else 0]
        elif field.type is records:
            fields[field.name] = batch()
        elif field.name == "path":
            fields[field.name] = directory
        elif field.name in GIVEN:
            fields[field.name] = GIVEN[field.name]
    return fields


def test_handlers_of_a_worker_do_not_fail(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Each API that is not forwarded, in each version. Handlers that fail appear in the log."""

    async def scenario(owner: Owner) -> None:
        dispatcher = owner.worker.dispatcher
        for key in sorted(SERVED_HERE):
            api = API_BY_KEY[key]
            for version in dispatcher.served[key].served:
                fields = filled(api.request, version, str(tmp_path))
                frame = memoryview(request_frame(api, version, 7, **fields))[4:]
                answer = dispatcher.dispatch(CONNECTION, frame)
                while isinstance(answer, Waiting):
                    await done(answer.deferred)
                    answer = dispatcher.finish(CONNECTION, answer)
                assert answer is not None
                assert "failed" not in caplog.text, (api.name, version)
        await owner.answer(Stop())

    run(tmp_path, scenario)
