"""`pybroker explain`: the steps agree with the bytes and files."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tools.wire.explain import SUBJECTS, main

_WAIT_S = 120
COMMAND = [sys.executable, "-m", "tools.wire.explain"]


@pytest.fixture(scope="module")
def traces() -> dict[str, list[dict[str, Any]]]:
    """The steps of each subject, recorded once."""
    return {}


@pytest.fixture
def steps(traces: dict[str, list[dict[str, Any]]], capsys: pytest.CaptureFixture[str], subject: str) -> Any:
    if subject not in traces:
        assert main([subject, "--json"]) == 0
        captured = capsys.readouterr()
        assert captured.err == ""
        traces[subject] = [json.loads(line) for line in captured.out.splitlines()]
    return traces[subject]


def rows(step: dict[str, Any]) -> dict[str, Any]:
    return {row["name"]: row["value"] for row in step["rows"]}


def with_title(steps: list[dict[str, Any]], start: str) -> list[dict[str, Any]]:
    """Return the steps whose titles begin with `start`; at least one must."""
    found = [step for step in steps if step["title"].startswith(start)]
    assert found, [step["title"] for step in steps]
    return found


@pytest.mark.parametrize("subject", SUBJECTS)
def test_numbers_match_their_bytes(steps: list[dict[str, Any]]) -> None:
    """For every integer shown with bytes. The pieces of a frame are contiguous."""
    checked = 0
    for step in steps:
        end = step["rows"][0].get("position")
        for row in step["rows"]:
            if "hex" not in row or step["step"] == "index":
                continue
            data = bytes.fromhex(row["hex"])
            assert row["position"] == end
            end += len(data)
            if type(row["value"]) is int and len(data) in (2, 4, 8) and "tags" not in row["name"]:
                assert int.from_bytes(data, "big", signed=True) == row["value"], row
                checked += 1
        if step["rows"][0]["name"] == "size" and step["step"] != "frame":
            assert end == step["rows"][0]["value"] + 4  # the whole frame
    assert checked > 10


@pytest.mark.parametrize("subject", ["produce"])
def test_produce(steps: list[dict[str, Any]]) -> None:
    """The checksum stays the same, offsets are assigned, and index entries and high watermark follow."""
    (sent,) = with_title(steps, "decode: the batch")
    (checks,) = with_title(steps, "checks")
    (stored,) = with_title(steps, "append: the batch in")
    (answer,) = with_title(steps, "answer")
    crc = rows(sent)["crc"]
    assert (rows(stored)["crc"], rows(checks)["checksum"]) == (crc, f"{crc} computed, {crc} stored")
    assert rows(checks)["check_batch"] == "accepted"
    assert (rows(sent)["base_offset"], rows(sent)["leader_epoch"]) == (0, -1)
    assert (rows(stored)["base_offset"], rows(stored)["leader_epoch"]) == (1, 0)
    assert rows(answer)["responses[0].partition_responses[0].base_offset"] == 1
    offsets, times = with_title(steps, "index entries")
    assert rows(offsets)["offsetEntry"] == {"offset": 2, "position": stored["rows"][0]["position"]}
    assert offsets["rows"][0]["hex"] == f"00000002{stored['rows'][0]['position']:08x}"
    assert rows(times)["timeEntry"]["timestamp"] == rows(sent)["max_timestamp"]
    (ends,) = with_title(steps, "high watermark")
    assert rows(ends) == {
        "ListOffsets before": 1,
        "ListOffsets after": 3,
        "replication-offset-checkpoint": "orders 0 3",
    }


@pytest.mark.parametrize("subject", ["fetch"])
def test_fetch(steps: list[dict[str, Any]]) -> None:
    """The index leads to the batch whose bytes are in the response."""
    (lookup,) = with_title(steps, "lookup")
    (cut,) = with_title(steps, "slice")
    position = rows(cut)["position"]
    assert rows(lookup)[f"batch at {position}"] == "offsets 2 to 3"
    assert rows(cut)["the answer's records equal the bytes of the file"] is True
    batches = with_title(steps, "records")
    assert [rows(each)["base_offset"] for each in batches] == [2, 4]
    assert rows(cut)["bytes"] == sum(rows(each)["batch_length"] + 12 for each in batches)


@pytest.mark.parametrize("subject", ["rebalance"])
def test_rebalance(steps: list[dict[str, Any]]) -> None:
    """Two generations, with assignments for both members."""
    generations = [
        (rows(each)["error_code"], rows(each)["generation_id"], len(rows(each)["leader"]) > 0)
        for each in steps
        if "JoinGroup" in each["title"] and each["step"] == "answer"
    ]
    assert generations == [(79, -1, False), (0, 1, True), (0, 2, True), (0, 2, True)]
    beats = [rows(each)["error_code"] for each in steps if "Heartbeat v4, answer" in each["title"]]
    assert beats == [27, 0, 0]
    assert rows(with_title(steps, "JoinGroup's metadata")[0])["topics[0]"] == "orders"
    shares = [
        {row["value"] for row in each["rows"] if ".partitions[" in row["name"]}
        for each in with_title(steps, "SyncGroup's assignment")
    ]
    assert shares == [{0, 1, 2, 3}, {0, 1}, {2, 3}]
    log = with_title(steps, "append")[0]["rows"]
    assert [row["value"]["payload"]["data"]["generation"] for row in log] == [0, 1, 2]


@pytest.mark.parametrize("subject", ["transaction"])
def test_transaction(steps: list[dict[str, Any]]) -> None:
    """The last stable offset, markers, and the list of aborted transactions."""
    ends = [(rows(each)["high_watermark"], rows(each)["last_stable_offset"]) for each in with_title(steps, "LSO")]
    assert ends == [(1, 0), (2, 2), (3, 2), (4, 4)]
    markers = with_title(steps, "marker")
    assert [each["title"].split()[1] for each in markers] == ["COMMIT", "ABORT"]
    assert all("transactional, control" in rows(each)["attributes"] for each in markers)
    (index,) = with_title(steps, "index entries")
    aborted = rows(index)["abortedTransaction"]
    assert (aborted["firstOffset"], aborted["lastOffset"], len(index["rows"][0]["hex"])) == (2, 3, 68)
    fetched = rows(with_title(steps, "broker -> consumer: Fetch")[0])
    assert fetched["responses[0].partitions[0].aborted_transactions[0].first_offset"] == 2
    states = [
        row["value"]["payload"]["data"]["transactionStatus"]
        for row in with_title(steps, "append: the trans")[0]["rows"]
    ]
    assert states[0] == "Empty"
    assert {"CompleteCommit", "CompleteAbort"} <= set(states)


def test_temporary_directory_is_removed(tmp_path: Path) -> None:
    """SIGTERM and a closed pipe leave no temporary directory."""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    assert tempfile.gettempdir() != str(tmp_path)
    for ends_by in ("signal", "pipe"):
        process = subprocess.Popen(
            [*COMMAND, "produce", "--color", "always"],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "\x1b[1;33m1. frame: Produce v13, 141 bytes\x1b[0m\n"
        if ends_by == "signal":
            process.send_signal(signal.SIGTERM)
        process.stdout.close()
        assert process.wait(_WAIT_S) == (143 if ends_by == "signal" else 0)
        assert process.stderr.read() == ""
        process.stderr.close()
        assert list(tmp_path.iterdir()) == []
