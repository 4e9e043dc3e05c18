"""Names in certificates, as one line."""

from __future__ import annotations

import pytest

from security.distinguished_name import distinguished_name


@pytest.mark.parametrize(("size", "head"), [(127, "167f"), (128, "168180"), (255, "1681ff"), (300, "1682012c")])
def test_attributes_without_a_short_name_are_whole_in_der(size: int, head: str) -> None:
    """Also those whose length takes more than a byte."""
    assert distinguished_name(((("emailAddress", "a" * size),),)) == f"1.2.840.113549.1.9.1=#{head}{'61' * size}"
