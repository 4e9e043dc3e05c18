"""The table of APIs, which is built without importing their modules."""

import os
import subprocess
import sys
from importlib import import_module

import pytest

from broker.requests.served_api import CannotLoad, ServedApi, discover
from protocol.api_keys import ApiKey
from protocol.versions import VersionRange

WHAT_THE_TABLE_LOADS = """
import sys
from pybroker.engine_process import enter
enter()
from broker.requests.served_api import discover
for each in discover().values():
    each.served, each.advertised, each.name, each.is_loaded
print([name for name in sys.modules if name.startswith(("broker.handlers.", "protocol.messages."))])
"""


def test_versions_are_known_without_the_modules():
    """Neither handlers nor messages are imported."""
    command = [sys.executable, "-I", "-c", WHAT_THE_TABLE_LOADS]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "[]\n"


def test_each_module_serves_the_key_of_its_name():
    """Every module is found: a new API is a new file."""
    (folder,) = import_module("broker.handlers").__path__
    modules = {name.removesuffix(".py") for name in os.listdir(folder) if name.endswith(".py")} - {"__init__"}
    served = discover()

    assert {each.name.lower() for each in served.values()} == modules
    for key, each in served.items():
        assert not each.is_loaded
        api, handler = each.load()[:2]
        assert (api.key, handler.__module__) == (key, f"broker.handlers.{each.name.lower()}")
        assert each.is_loaded


def test_an_api_with_another_handler_loads_no_module():
    """For an API that a worker forwards, only the messages are imported."""
    served = ServedApi(ApiKey.ALTER_CONFIGS, VersionRange(0, 2)).with_handler(len)
    assert not served.is_loaded

    implementation = served.load()
    assert served.implementation is implementation
    assert (implementation.api.name, *implementation[1:]) == ("AlterConfigs", len, None, None)


def test_an_api_without_a_module_cannot_be_loaded():
    """Only controllers serve Vote. Each attempt to load it raises the error."""
    served = ServedApi(ApiKey.VOTE, VersionRange(0, 2))
    for _ in range(2):
        with pytest.raises(CannotLoad, match=r"broker\.handlers\.vote cannot be loaded: ModuleNotFoundError"):
            served.load()
    assert not served.is_loaded
