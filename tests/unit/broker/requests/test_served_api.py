"""The table of APIs, which is made without their modules."""

import os
import subprocess
import sys
from importlib import import_module

import pytest

from broker.requests.served_api import CannotLoad, Row, discover
from protocol.api_keys import ApiKey
from protocol.versions import VersionRange

WHAT_THE_TABLE_LOADS = """
import sys
from broker.requests.served_api import discover
for row in discover().values():
    row.served, row.advertised, row.name, row.is_loaded
print([name for name in sys.modules if name.startswith(("broker.handlers.", "protocol.messages."))])
"""


def test_versions_are_known_without_the_modules():
    """Neither the handlers' nor those of the messages."""
    command = [sys.executable, "-I", "-c", WHAT_THE_TABLE_LOADS]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "[]\n"


def test_each_module_serves_the_key_of_its_name():
    """And each is found: a new API is a file."""
    (folder,) = import_module("broker.handlers").__path__
    modules = {name.removesuffix(".py") for name in os.listdir(folder) if name.endswith(".py")} - {"__init__"}
    rows = discover()

    assert {row.name.lower() for row in rows.values()} == modules
    for key, row in rows.items():
        assert (row.api.key, row.handler.__module__) == (key, f"broker.handlers.{row.name.lower()}")
        assert row.is_loaded


def test_a_row_with_a_handler_loads_no_other():
    """Of a worker's rows only the API's messages are loaded."""
    row = Row(ApiKey.ALTER_CONFIGS, VersionRange(0, 2)).with_handler(len)

    assert row.is_loaded
    assert (row.api.name, row.handler, row.shortcut, row.encoder) == ("AlterConfigs", len, None, None)


def test_what_is_not_there_cannot_be_loaded():
    """Vote is a controller's: each time it is asked for."""
    row = Row(ApiKey.VOTE, VersionRange(0, 2))
    for _ in range(2):
        with pytest.raises(CannotLoad, match=r"broker\.handlers\.vote cannot be loaded: ModuleNotFoundError"):
            row.load()
    with pytest.raises(CannotLoad):
        _ = row.handler
    with pytest.raises(AttributeError):
        _ = row.nothing
    assert not row.is_loaded
