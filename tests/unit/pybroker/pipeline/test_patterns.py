"""Named groups of Java's regular expressions, replaced by numbers."""

from __future__ import annotations

import pytest

from pybroker.pipeline.patterns import Numbered, numbered
from pybroker.pipeline.spec import SpecError


@pytest.mark.parametrize(
    ("pattern", "without_names", "groups", "count"),
    [
        (r"(?<a>x)(y)(?<b_c>z)", r"(x)(y)(z)", {"a": 1, "b_c": 3}, 3),
        (r"(?:x)(?=y)(?!y)(?<=z)(?<!z)(?>x)(?i)(?<a>x)", r"(?:x)(?=y)(?!y)(?<=z)(?<!z)(?>x)(?i)(x)", {"a": 1}, 1),
        (r"(?<a>(?<b>x)|(y))", r"((x)|(y))", {"a": 1, "b": 2}, 3),
        (r"\((?<a>x)\)", r"\((x)\)", {"a": 1}, 1),
        (r"\\(?<a>x)", r"\\(x)", {"a": 1}, 1),
        (r"\(?<a>(?<b>x)", r"\(?<a>(x)", {"b": 1}, 1),
        (r"[(](?<a>x)[\](](?<b>y)", r"[(](x)[\](](y)", {"a": 1, "b": 2}, 2),
        (r"[](](?<a>x)[^](](?<b>y)", r"[](](x)[^](](y)", {"a": 1, "b": 2}, 2),
        (r"[(?<a>](?<b>x)[a&&[^(]](?<c>y)]", r"[(?<a>](x)[a&&[^(]](y)]", {"b": 1, "c": 2}, 2),
        (r"\Q(?<a>[\E(?<b>x)\Q(", r"\Q(?<a>[\E(x)\Q(", {"b": 1}, 1),
        (r"(?<a>\p{Alpha}+)\h(?<b>\p{L})", r"(\p{Alpha}+)\h(\p{L})", {"a": 1, "b": 2}, 2),
        (r"(?<a>['\x22]).*\k<a>0", r"(['\x22]).*(?:\1)0", {"a": 1}, 1),
        (r"\k<a>(?<a>x)", r"\k<a>(x)", {"a": 1}, 1),
        (r"(?<open", r"(?<open", {}, 0),
    ],
)
def test_group_names_are_removed(pattern: str, without_names: str, groups: dict[str, int], count: int) -> None:
    """Only those of groups: not escaped, quoted, or in a class."""
    assert numbered(pattern) == Numbered(without_names, groups, count)


def test_repeated_group_name_is_an_error() -> None:
    with pytest.raises(SpecError, match=r"parse\.pattern: two groups are named a"):
        numbered("(?<a>x)(?<a>y)")
