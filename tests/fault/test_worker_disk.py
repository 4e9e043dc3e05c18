"""num.workers=2, and a log directory fails for one worker: it goes offline for both, and the other one continues."""

from __future__ import annotations

import resource
from collections.abc import Callable
from pathlib import Path

from protocol.error_codes import ErrorCode
from protocol.messages.describe_log_dirs import DESCRIBE_LOG_DIRS
from tests.support.data_client import Refused, batch
from tests.support.eventually import eventually
from tests.support.several_workers import WorkersBroker

PARTITIONS = 8
LIMIT_BYTES = 1 << 20
NOISE = bytes(60_000)


def refusal(call: Callable[[], object]) -> ErrorCode:
    """Return the error code of a request, or NONE."""
    try:
        call()
    except Refused as refused:
        return refused.code
    return ErrorCode.NONE


def places(broker: WorkersBroker) -> dict[int, str]:
    """Return the name of each partition's log directory, as reported by its worker."""
    return {
        partition.partition_index: Path(result.log_dir).name
        for worker in (0, 1)
        for result in broker.client(worker).call(DESCRIBE_LOG_DIRS, 4, topics=None).results
        for topic in result.topics
        if topic.name == "t"
        for partition in topic.partitions
    }


def test_a_directory_that_fails_for_one_fails_for_all(tmp_path: Path) -> None:
    """Its partitions have no leader, in either worker. With free space a restart brings back all records."""
    dirs = ",".join(str(tmp_path / name) for name in ("data", "full"))
    broker = WorkersBroker(tmp_path / "broker", properties={"log.dirs": dirs, "log.index.size.max.bytes": "4096"})
    broker.client().create_topic("t", PARTITIONS)
    leaders, found = broker.leaders("t"), places(broker)
    assert {(leader, found[index]) for index, leader in enumerate(leaders)} == {
        (leader, place) for leader in (1, 2) for place in ("data", "full")
    }
    for index in range(PARTITIONS):
        broker.at("t", index).produce("t", batch(b"%d" % index), index)

    [worker] = broker.worker_ids()
    resource.prlimit(worker, resource.RLIMIT_FSIZE, (LIMIT_BYTES, LIMIT_BYTES))
    filled = next(index for index in range(PARTITIONS) if (leaders[index], found[index]) == (2, "full"))
    acknowledged = [b"%d" % filled]
    while refusal(lambda: broker.at("t", filled).produce("t", batch(NOISE), filled)) is ErrorCode.NONE:
        acknowledged.append(NOISE)

    wanted = [-1 if found[index] == "full" else leader for index, leader in enumerate(leaders)]
    eventually(lambda: broker.leaders("t", 0) == broker.leaders("t", 1) == wanted)
    for index in range(PARTITIONS):
        code = refusal(lambda index=index: broker.at("t", index).produce("t", batch(b"more"), index))  # type: ignore[misc]
        assert code is (ErrorCode.KAFKA_STORAGE_ERROR if found[index] == "full" else ErrorCode.NONE)
    assert broker.stop() == 0
    assert (tmp_path / "data/.kafka_cleanshutdown").exists()
    assert not (tmp_path / "full/.kafka_cleanshutdown").exists()
    assert "Traceback" not in broker.output

    broker.start()
    assert broker.leaders("t") == leaders
    for index in range(PARTITIONS):
        before = acknowledged if index == filled else [b"%d" % index]
        expected = before if found[index] == "full" else [*before, b"more"]
        assert broker.at("t", index).values("t", index) == expected
    assert broker.stop() == 0
