"""Files generated from the keys' descriptions: JSON Schema, reference page, and the template of `init`."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from pybroker.pipeline.json_schema import FILE, json_schema
from pybroker.pipeline.reference import page
from pybroker.pipeline.template import template
from tests.support.specifications import loaded

ROOT = Path(__file__).resolve().parents[4]


def test_shipped_schema_is_up_to_date() -> None:
    """`python -m pybroker.pipeline.json_schema` writes it."""
    assert json.loads(FILE.read_text()) == json_schema()


def test_schema_agrees_with_the_checker() -> None:
    """Required and unknown keys, types and enumerations."""
    schema = json_schema()
    source = schema["properties"]["sources"]["additionalProperties"]

    assert schema["required"] == ["version", "name", "kafka", "sources", "streams", "checkpoint_root"]
    assert schema["additionalProperties"] is source["additionalProperties"] is False
    assert source["properties"]["isolation"]["enum"] == ["read_committed", "read_uncommitted"]
    assert source["properties"]["starting"]["anyOf"][0] == {"enum": ["earliest", "latest"]}
    assert schema["properties"]["streams"]["additionalProperties"]["required"] == ["from", "sink"]


def test_reference_page_is_up_to_date() -> None:
    """`python -m pybroker.pipeline.reference` prints it."""
    assert (ROOT / "docs" / "generated" / "pipeline.md").read_text() == page()


def test_template_is_valid(tmp_path: Path) -> None:
    """Its streams have the type of its source."""
    pipeline = loaded(tmp_path, template())

    assert pipeline.sources["events"].topics == ["events"]
    assert pipeline.streams["archive"].sink.format == "parquet"


def test_template_has_every_key(tmp_path: Path) -> None:
    """Without its comment marks it is YAML, too."""
    text = template()
    shown = {line.lstrip(" #").partition(":")[0] for line in text.splitlines()}
    items = [line for line in page().splitlines() if line.startswith("- `")]
    names = {item.split("`")[1].rpartition(".")[2] for item in items}

    assert names - shown == set()
    assert yaml.safe_load(text)["version"] == 1
