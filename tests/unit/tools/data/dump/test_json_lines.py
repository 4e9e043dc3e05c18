"""A dump as JSON, one object a line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from protocol.records.builder import BatchBuilder
from tests.support.dump_log import LOGS
from tests.support.logs import T0
from tools.data.dump_log import main

RECORDED = LOGS / "v4.3.1-clean-shutdown"


def objects(capfd: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, object]]:
    assert main(["--json", *arguments]) == 0
    return [json.loads(line) for line in capfd.readouterr().out.splitlines()]


def test_batches_and_records_are_objects(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Fields with default values are left out. Binary values are in Base64."""
    builder = BatchBuilder(base_offset=0)
    builder.append(T0, b"key", b"\xff\x00", [("h", b"1")])
    builder.append(T0 + 1, None, None)
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(builder.build())
    file, note, batch, first, second = objects(capfd, "--files", str(path), "--print-data-log")
    assert (file["type"], file["path"]) == ("file", str(path))
    assert note["type"] == "note"
    assert (batch["type"], batch["lastOffset"], batch["isValid"], batch["codec"]) == ("batch", 1, True, "none")
    assert "deleteHorizonMs" not in batch
    assert first == {
        "type": "record",
        "offset": 0,
        "timestampType": "CreateTime",
        "timestamp": T0,
        "keySize": 3,
        "valueSize": 2,
        "sequence": -1,
        "headerKeys": ["h"],
        "key": "key",
        "payload": {"base64": "/wA="},
    }
    assert (second["offset"], second["valueSize"], "payload" in second) == (1, -1, False)


def test_decoded_records_are_objects(capfd: pytest.CaptureFixture[str]) -> None:
    """Keys, payloads and control records."""
    path = RECORDED / "bootstrap.checkpoint"
    found = objects(capfd, "--files", str(path), "--cluster-metadata-decoder")
    records = [each for each in found if each["type"] == "record"]
    assert records[0]["control"] == {"name": "SnapshotHeader", "value": {"version": 0, "lastContainedLogTimestamp": 0}}
    assert records[1]["payload"] == {
        "type": "FEATURE_LEVEL_RECORD",
        "version": 0,
        "data": {"name": "metadata.version", "featureLevel": 30},
    }


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("plain-0/00000000000000000000.index", "offsetEntry"),
        ("plain-0/00000000000000000000.timeindex", "timeEntry"),
        ("txn-0/00000000000000000004.txnindex", "abortedTransaction"),
        ("txn-0/00000000000000000053.snapshot", "producer"),
        ("meta.properties", "problem"),
    ],
)
def test_other_files_have_their_own_types(capfd: pytest.CaptureFixture[str], name: str, kind: str) -> None:
    """Problems are among the lines."""
    assert objects(capfd, "--files", str(RECORDED / name))[-1]["type"] == kind
