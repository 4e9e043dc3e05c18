"""Keys and values in readable forms."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from starlette.requests import Request

import console
from console.cluster.values import Message
from console.pages import tail
from console.pages.messages import form_of
from console.payload import Form, most_of, payload


@pytest.mark.parametrize(
    ("data", "form", "shown"),
    [
        (None, "auto", ("null", "")),
        (b"", "auto", ("empty", "")),
        (b'{"a": 1}', "auto", ("json", '{\n  "a": 1\n}')),
        (b'{"a": 1}', "text", ("text", '{"a": 1}')),
        (b"12", "auto", ("text", "12")),
        (b"12", "json", ("json", "12")),
        (b'{"a": "\\ud800"}', "auto", ("json", '{\n  "a": "\\ud800"\n}')),
        (b"{no json", "json", ("text", "{no json")),
        ("naïve".encode(), "auto", ("text", "naïve")),
        (b"\xff\x00", "text", ("hex", "00000000  ff 00                                            ··")),
        (b"a\x1b[2J", "auto", ("hex", "00000000  61 1b 5b 32 4a                                   a·[2J")),
        (b"a\x1b[2J", "text", ("text", "a�[2J")),
    ],
)
def test_forms_are_chosen_or_guessed(data: bytes | None, form: Form, shown: tuple[str, str]) -> None:
    rendered = payload(data, form)
    assert (rendered.form, rendered.text) == shown


def test_long_values_are_cut_between_characters() -> None:
    """With a mark."""
    rendered = payload("ä".encode() * 20_000 + b"x", "text")
    assert (rendered.form, rendered.is_cut, rendered.size_bytes) == ("text", True, 40_001)
    assert rendered.text == "ä" * 10_000


def test_formatted_json_is_cut_like_its_input() -> None:
    """Indentation must not make it longer. Deeply nested values are not formatted."""
    for depth, form in ((60, "json"), (900, "text")):
        data = b"[" * depth + b"1," * 9_000 + b"1" + b"]" * depth
        rendered = payload(data, "json")
        assert (rendered.form, rendered.is_cut, rendered.size_bytes) == (form, form == "json", len(data))
        assert len(rendered.text) <= 20_000
    assert payload(b"[" * 64 + b"]" * 64).form == "json"
    assert payload(b"[" * 65 + b"]" * 65).form == "text"


@pytest.mark.parametrize(("form", "longest"), [("auto", 2_000), ("json", 2_000), ("text", 2_000), ("hex", 10_000)])
def test_page_of_many_records_shows_less_of_each(form: str, longest: int) -> None:
    """Keys, values and headers, so that a browser can render it."""
    data = b'{"a": "' + b"x" * 30_000 + b'"}'
    form_of_page = form_of(Request({"type": "http", "query_string": f"form={form}".encode()}), 500)
    shown = form_of_page.readable(Message(0, 0, 0, data, data, (("name", data),)))
    assert all(each.is_cut and len(each.text) <= longest for each in (shown.key, shown.value, shown.headers[0][1]))
    assert [most_of(count) for count in (1, 50, 100, 500)] == [20_000, 20_000, 10_000, 2_000]


def test_tail_keeps_as_many_rows_as_it_is_cut_for() -> None:
    """The script drops older ones."""
    script = (Path(console.__file__).parent / "static/console.js").read_text()
    kept = re.search(r"MOST_ROWS = (\d+)", script)
    assert kept is not None
    assert int(kept[1]) == tail._MOST_KEPT
