"""The checks of a round-trip program in any language: it writes records, reads them in a group, and commits."""

from __future__ import annotations

import json
import subprocess


def check_round_trip(command: list[str], bootstrap: str, topic: str, count: int, codec: str) -> None:
    """Run the program and check what it read, the state of its group, and the offsets that it committed."""
    arguments = [bootstrap, topic, topic, str(count), codec]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stdout + done.stderr
    answer = json.loads(done.stdout)

    expected = [[f"key-{n % 7}", f"value-{n}", str(n)] for n in range(count)]
    ends: dict[int, int] = {}
    for partition, offset, *_ in answer["read"]:
        assert offset == ends.get(partition, 0), "an offset is missing or out of order"
        ends[partition] = offset + 1
    assert sorted(record[2:] for record in answer["read"]) == sorted(expected)
    assert answer["state"] == "Stable"
    assert {partition: offset for partition, offset in answer["committed"] if offset > 0} == ends
