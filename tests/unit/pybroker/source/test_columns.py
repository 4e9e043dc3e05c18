"""The columns and their selection."""

from __future__ import annotations

import pyarrow as pa
import pytest

from pybroker.source.columns import COLUMNS, USUAL, arrow_schema, as_records, chosen_columns
from pybroker.source.errors import UnusableOption


def test_headers_are_optional() -> None:
    assert chosen_columns(None) == USUAL == COLUMNS[:-1]
    assert chosen_columns(None, headers=True) == COLUMNS


def test_columns_keep_their_order_in_any_case() -> None:
    assert chosen_columns([" Value", "timestamptype", "OFFSET "]) == ("value", "timestampType", "offset")


@pytest.mark.parametrize(("names", "expected"), [([], "no column"), (["key", "KEY"], "twice"), (["vlaue"], "'vlaue'")])
def test_invalid_selection_is_rejected(names: list[str], expected: str) -> None:
    with pytest.raises(UnusableOption, match=expected):
        chosen_columns(names)


def test_rows_are_converted_to_record_types() -> None:
    """Strings become bytes. Matching types are not copied."""
    rows = pa.RecordBatch.from_pydict({"key": pa.array([b"k"]), "value": pa.array(["é"])})

    records = as_records(rows, ("key", "value"))

    assert records.to_pylist() == [{"key": b"k", "value": "é".encode()}]
    assert records.schema == arrow_schema(("key", "value"))
