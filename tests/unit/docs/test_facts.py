"""The page of facts is up to date, and every fact has a test or a reason."""

from __future__ import annotations

import pytest

from tests.support.facts import citations, cited_in, facts, main, without_test


def test_the_page_is_up_to_date() -> None:
    """`python -m tests.support.facts` writes the page."""
    assert main(["--check"]) == 0


def test_each_fact_has_a_test_or_a_reason() -> None:
    """Not both: a reason is removed once a test exists."""
    of_logs = {fact for fact in facts() if "." in fact}
    shown = of_logs & citations().keys()

    assert of_logs - shown - without_test().keys() == set()
    assert shown & without_test().keys() == set()
    assert without_test().keys() - of_logs == set()


def test_no_test_cites_an_unknown_fact() -> None:
    """In the areas of the table. Other areas belong to other documents."""
    areas = {fact for fact in facts() if "." not in fact}
    assert {fact for fact in citations() if fact.split(".")[0] in areas} - facts().keys() == set()


def test_facts_are_numbered_without_a_gap() -> None:
    """Each area starts at 1, below its heading."""
    area, number = "", 0
    for fact, name in facts().items():
        assert name
        if "." not in fact:
            area, number = fact, 0
            continue
        number += 1
        assert fact == f"{area}.{number}"


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("S4.16: as there", ["S4.16"]),
        ("rolls (S13.2-S13.4, S3.1)", ["S13.2", "S13.3", "S13.4", "S3.1"]),
        ("S7.3 - S7.5", ["S7.3", "S7.4", "S7.5"]),
        ("XS4.1, S15 and AS2.1", []),
    ],
)
def test_ids_in_a_docstring(text: str, ids: list[str]) -> None:
    """Single ids and ranges."""
    assert list(cited_in(text)) == ids


@pytest.mark.parametrize("text", ["S4.5-S5.6", "S4.5-S4.5", "S4.5-S4.2"])
def test_invalid_ranges(text: str) -> None:
    """A range stays within an area and goes upwards."""
    with pytest.raises(ValueError, match="is no range"):
        list(cited_in(text))
