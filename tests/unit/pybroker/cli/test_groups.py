"""`pybroker groups`: the command line."""

from __future__ import annotations

import pytest

from pybroker.cli.groups import command_line


@pytest.mark.parametrize("name", ["share", "streams"])
def test_list_takes_the_type_like_the_other_actions(name: str) -> None:
    parser = command_line()

    listed = parser.parse(["list", f"--{name}"])

    assert listed.type == parser.parse(["list", "--type", name]).type == [name]
    assert parser.parse(["describe", "g", f"--{name}"]).group_type == name
