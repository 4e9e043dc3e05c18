"""Steps of a trace as lines."""

from __future__ import annotations

import json

from tools.wire.traces.steps import (
    Row,
    Step,
    as_json,
    as_text,
)

STEP = Step(
    "decode",
    "decode: fields",
    "What is there.",
    (Row("acks", -1, 24, b"\xff\xff"), Row("records", "99 bytes", 26, bytes(range(99)))),
)


def test_lines_have_position_bytes_name_and_value() -> None:
    """Long byte sequences are cut."""
    assert list(as_text(2, STEP, colour=False)) == [
        "2. decode: fields",
        "   What is there.",
        "      24  ff ff                              acks     -1",
        "      26  00 01 02 03 04 05 06 07 08 .. +90  records  99 bytes",
        "",
    ]


def test_values_without_bytes_are_escaped() -> None:
    """Shown in full, without control characters."""
    step = Step(
        "checks", "checks", "", (Row("a", None), Row("long name", "x\x1b" * 99), Row("b", {"c": 1}, text="c: 1"))
    )
    long = "x\N{REPLACEMENT CHARACTER}" * 99
    lines = list(as_text(1, step, colour=False))
    assert lines == ["1. checks", "   a          null", f"   long name  {long}", "   b          c: 1", ""]


def test_colour_does_not_change_the_text() -> None:
    """Without it there is no escape sequence."""
    plain, coloured = list(as_text(1, STEP, colour=False)), list(as_text(1, STEP, colour=True))
    assert "\x1b" not in "".join(plain)
    assert coloured[0] == "\x1b[1;33m1. decode: fields\x1b[0m"
    assert "\x1b[36mff ff" in coloured[2]


def test_json_lines_have_all_bytes() -> None:
    lines = json.loads(as_json(STEP))
    assert (lines["type"], lines["step"], lines["title"], lines["about"]) == (
        "step",
        "decode",
        "decode: fields",
        "What is there.",
    )
    assert lines["rows"][0] == {"name": "acks", "value": -1, "position": 24, "hex": "ffff"}
    assert len(lines["rows"][1]["hex"]) == 198
