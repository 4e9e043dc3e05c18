"""Java's .properties syntax, as `java.util.Properties` reads it, and line numbers."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from config.errors import ConfigError
from config.properties import parse_properties
from tests.support.scale import scaled


def read(text: str) -> list[tuple[str, str, int]]:
    return [(entry.key, entry.value, entry.line) for entry in parse_properties(text.encode(), "f")]


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("a=b", "a", "b"),
        ("a:b", "a", "b"),
        ("a b", "a", "b"),
        ("a\tb", "a", "b"),
        ("  a  =  b", "a", "b"),
        ("a = b ", "a", "b "),
        ("a = = b", "a", "= b"),
        ("a : = b", "a", "= b"),
        ("a", "a", ""),
        ("a=", "a", ""),
        ("=b", "", "b"),
        ("a=b=c:d e", "a", "b=c:d e"),
        (r"a\=b=c", "a=b", "c"),
        (r"a\:b\ c=d", "a:b c", "d"),
        (r"a=\t\n\r\f|", "a", "\t\n\r\f|"),
        (r"a=\q\"\'", "a", "q\"'"),
        (r"a=\\b", "a", r"\b"),
        (r"a=\u00e9\u4E2D", "a", "é中"),
        (r"a=\ud83d\ude00", "a", "😀"),
        ("a=é中😀", "a", "é中😀"),
        ("a=b#c!d", "a", "b#c!d"),
        ("a=one,\\\n   two,\\\n\tthree", "a", "one,two,three"),
        ("a=b\\\\\nc=d", "a", "b\\"),
        ("a=b\\", "a", "b"),
        ("a\\\nb=c", "ab", "c"),
        ("a=\\ b", "a", " b"),
    ],
)
def test_one_entry(text: str, key: str, value: str) -> None:
    """Separators, escapes and continuation lines, as documented for java.util.Properties.load."""
    assert (key, value) == read(text)[0][:2]


def test_comments_and_blank_lines_are_skipped() -> None:
    """# and ! begin a comment, also after blanks. A comment has no continuation."""
    assert read("# one=1\n! two=2\n\n  # three=3 \\\na=b\n \t\n") == [("a", "b", 5)]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_are_counted_with_any_line_ending(end: str) -> None:
    """An entry has the number of its first line; continuation lines count."""
    assert read(end.join(["#", "a=1\\", "  2", "b=3"])) == [("a", "12", 2), ("b", "3", 4)]


def test_a_comment_sign_in_a_continuation_is_text() -> None:
    """A continuation line is part of its line."""
    assert read("a=b\\\n#c") == [("a", "b#c", 1)]


def test_duplicates_are_all_given_in_order() -> None:
    """The reader decides which one counts (the last)."""
    assert read("a=1\na=2") == [("a", "1", 1), ("a", "2", 2)]


def test_byte_order_mark_is_skipped() -> None:
    """Some editors write one."""
    assert parse_properties(b"\xef\xbb\xbfa=b", "f")[0].key == "a"


def test_files_that_are_not_utf8_are_latin_1() -> None:
    """As Java reads them."""
    assert [entry.value for entry in parse_properties(b"# gr\xf6\xdfe\na=\xe4\nb=\xff\xc3\xa4", "f")] == ["ä", "ÿÃ¤"]


def test_latin_1_is_refused_with_its_line_where_java_reads_characters() -> None:
    """Kafka's provider of secrets in files reads UTF-8."""
    with pytest.raises(ConfigError) as refused:
        parse_properties(b"a=1\n\nb=\xff\n", "f.properties", is_utf8=True)

    assert str(refused.value.problems[0]).startswith("f.properties:3: ")


@pytest.mark.parametrize(
    ("encoding", "line"), [("utf-16", 1), ("utf-16-le", 1), ("utf-16-be", 1), ("utf-32", 1), ("utf-32-be", 1)]
)
def test_other_encodings_are_refused_with_their_line(encoding: str, line: int) -> None:
    """Java would read keys with zero bytes in them, and ignore them."""
    with pytest.raises(ConfigError) as refused:
        parse_properties("a=1\nb=2\n".encode(encoding), "f.properties")

    assert str(refused.value.problems[0]).startswith(f"f.properties:{line}: ")
    assert "not UTF-8 text" in str(refused.value.problems[0])
    assert ": : " not in str(refused.value.problems[0])


def test_zero_byte_is_refused_with_its_line() -> None:
    with pytest.raises(ConfigError) as refused:
        parse_properties(b"a=1\r\n#\rb=\0\n", "f.properties")

    assert str(refused.value.problems[0]).startswith("f.properties:3: ")


def test_malformed_unicode_escape_is_refused_with_its_line() -> None:
    """As in Java."""
    with pytest.raises(ConfigError) as refused:
        parse_properties(b"a=1\nb=\\u12x4", "f.properties")

    assert "f.properties:2" in str(refused.value.problems[0])


@settings(max_examples=scaled(60))
@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_entries_written_by_java_are_read_unchanged(entries: dict[str, str]) -> None:
    """Everything that Java's `store` writes is read unchanged."""

    def escape(text: str) -> str:
        units = text.encode("utf-16-be", "surrogatepass")
        return "".join(f"\\u{units[at] << 8 | units[at + 1]:04x}" for at in range(0, len(units), 2))

    clean = {k: v for k, v in entries.items() if not any("\ud800" <= c <= "\udfff" for c in k + v)}
    text = "\n".join(f"{escape(key)}={escape(value)}" for key, value in clean.items())

    assert clean == {entry.key: entry.value for entry in parse_properties(text.encode(), "f")}


@settings(max_examples=scaled(60))
@given(st.binary(max_size=80))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    """Only ConfigError is raised."""
    with suppress(ConfigError):
        parse_properties(data, "f")


def test_line_of_megabytes_is_read() -> None:
    """A binary file may have one. The parser needs neither its recursion nor memory for each character."""
    key, value = "k" * 20_000_000, "v" * 1_000_000
    assert read(f"{key}={value}") == [(key, value, 1)]
