"""Java's patterns; tests/conformance/test_user_names.py compares them with Java."""

from __future__ import annotations

import pytest

from security.java_pattern import compile_java


@pytest.mark.parametrize(
    ("pattern", "text", "fits"),
    [
        ("a.c", "abc", True),
        ("a.c", "a\rc", False),
        ("a.c", "a\u2028c", False),
        (r"a\.c", "abc", False),
        ("a[.]c", "abc", False),
        ("a[.]c", "a.c", True),
        (r"[\].]+", "].", True),
        ("[^&]&", "a&", True),
        (r"(?<n>a)\1", "aa", True),
        (r"\(?<n", "(<n", True),
        (r"\w+", "grün", False),
        ("(?i)STRASSE", "straße", False),
        (r"\d", "\u0661", False),
    ],
)
def test_common_syntax(pattern: str, text: str, fits: bool) -> None:
    assert (compile_java(pattern).fullmatch(text) is not None) == fits


@pytest.mark.parametrize(
    "pattern",
    [
        *(
            "[a-z&&[^b]]",
            "[a[b]]",
            "[a--b]",
            "(?P<n>a)",
            "(a)(?(1)b|c)",
            "x{,3}",
            r"\v",
            r"a\Z",
            r"\p{L}",
            r"\Qa\E",
            "a(?i)b",
        ),
        *("a{99999999999}", "(", "[", "*", "\\", "(" * 10_000),
    ],
)
def test_syntax_with_other_meanings_is_rejected(pattern: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # in the words of whoever finds it
        compile_java(pattern)
