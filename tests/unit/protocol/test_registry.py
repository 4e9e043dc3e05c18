"""The registry of APIs and the enum of their keys."""

from __future__ import annotations

import csv
import importlib

import pytest

from protocol.api_keys import ApiKey
from protocol.registry import API_BY_KEY
from tests.support.schema_facts import FACTS, snake


def test_registry_has_every_api_key_of_kafka():
    """Key, name and module."""
    with open(FACTS / "api-versions.tsv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))

    assert sorted(API_BY_KEY) == sorted(int(row["api_key"]) for row in rows)
    for row in rows:
        api = API_BY_KEY[int(row["api_key"])]
        assert (api.name, ApiKey(api.key).name) == (row["name"], snake(row["name"]).upper())
        module = importlib.import_module(f"protocol.messages.{snake(row['name'])}")
        assert getattr(module, ApiKey(api.key).name) is api
        assert (ApiKey(api.key).versions, ApiKey(api.key).current) == (api.versions, api.current)
        assert "broker" not in api.listeners or "BROKER" in row["listeners"]


def test_first_flexible_versions_are_those_of_kafka():
    """The header versions follow from them."""
    with open(FACTS / "api-versions.tsv", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            api = API_BY_KEY[int(row["api_key"])]
            if not api.current:
                continue
            flexible = [v for v in api.current if api.request_header_version(v) == 2]
            assert (str(flexible[0]) if flexible else "") == row["first_flexible_request"] or (
                flexible[0] == api.current.min > int(row["first_flexible_request"])
            ), api


def test_unknown_keys():
    """As in any mapping."""
    assert 9999 not in API_BY_KEY
    assert API_BY_KEY.get(9999) is None
    assert API_BY_KEY.find(-1) is None
    with pytest.raises(KeyError):
        API_BY_KEY[9999]
    assert len(API_BY_KEY) == len(ApiKey)
