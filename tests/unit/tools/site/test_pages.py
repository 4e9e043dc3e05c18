"""Pages that are generated from the code."""

from __future__ import annotations

import pytest

from coordinator.group.classic.state import LEGAL_FROM, GroupState
from protocol.error_codes import ErrorCode
from protocol.registry import API_BY_KEY
from pybroker.cli.commands import modules
from tools.site.commands import parser_of
from tools.site.diagrams import bytes_diagram, states_diagram
from tools.site.layouts import LayoutField
from tools.site.pages import reference_pages, with_anchors, with_api_links
from tools.site.sources import relinked


def test_each_error_code_has_a_row() -> None:
    """Its number is the anchor."""
    page = reference_pages()["reference/error-codes.md"]

    assert [code.name for code in ErrorCode if f'<a id="{code.name}"></a>{code.value} |' not in page] == []


def test_each_api_has_a_page_with_its_fields() -> None:
    """Under Kafka's names. Fields of structs follow the struct."""
    pages = [path for path in reference_pages() if path.startswith("reference/apis/")]
    fetch = reference_pages()["reference/apis/fetch.md"]

    assert len(pages) == len(API_BY_KEY)
    assert "| `topics[].partitions[].fetchOffset` | int64 | 0+ |" in fetch


@pytest.mark.parametrize("command", sorted(modules()))
def test_page_of_a_command_has_each_option(command: str) -> None:
    """The page has the options of the command's actions, too."""
    page = reference_pages()[f"reference/commands/{command}.md"]
    parser = parser_of(command)
    options = [
        option for action in parser._actions for option in action.option_strings if option not in ("-h", "--help")
    ]

    assert page.startswith(f"# {parser.prog}\n")
    assert [option for option in options if f"`{option}" not in page] == []


def test_example_batch_is_explained_completely() -> None:
    """Its fields are contiguous."""
    page = reference_pages()["reference/formats/record-batch.md"]
    rows = [line.split(" | ") for line in page.split("\n") if line.startswith("| ") and "`" in line]
    position = 0
    for first, data, *_ in rows:
        assert int(first.removeprefix("| ")) == position
        position += len(data.strip("`").split())

    assert f"## A batch of {position} bytes" in page


def test_each_transition_has_an_arrow() -> None:
    """Transitions of a state to itself have a bold frame instead."""
    drawn = states_diagram({to.value: [each.value for each in before] for to, before in LEGAL_FROM.items()})
    moves = [(each, to) for to, before in LEGAL_FROM.items() for each in before]

    assert drawn.count("marker-end") == sum(each != to for each, to in moves)
    assert drawn.count('stroke-width="3"') == sum(each == to for each, to in moves)
    assert all(f">{state.value}</text>" in drawn for state in GroupState)


def test_positions_are_shown_while_they_are_fixed() -> None:
    """Behind a field of variable size they are unknown."""
    drawn = bytes_diagram([LayoutField("a", "int64"), LayoutField("b", ""), LayoutField("c", "int8")])

    assert ">8</text>" in drawn
    assert ">9</text>" not in drawn
    assert drawn.count("stroke-dasharray") == 1


def test_links_lead_to_pages_of_the_site() -> None:
    """A directory's is its README. Links in code and to other hosts stay unchanged."""
    places = {
        "docs/how-it-works/tour.md": "how-it-works/tour.md",
        "docs/decisions/README.md": "decisions/README.md",
        "LICENSE": "source/LICENSE.md",
    }
    text = "[a](docs/how-it-works/tour.md#b) [c](docs/decisions) [d](LICENSE) [e](https://f.org) [g](gone.md) [h](#i)"
    fenced = "\n```md\n[a](docs/how-it-works/tour.md)\n```\n"

    assert relinked(text + fenced, "README.md", "source/README.md", places) == (
        "[a](../how-it-works/tour.md#b) [c](../decisions/README.md) [d](LICENSE.md) [e](https://f.org) [g](gone.md)"
        " [h](#i)" + fenced
    )


def test_items_get_anchors_and_apis_links() -> None:
    """An item begins with a key or a metric, a row with a number and an API."""
    assert with_anchors("- `a.b`: c") == '- <a id="a.b"></a>`a.b`: c'
    assert with_anchors("- `a_b{d}`: c") == '- <a id="a_b"></a>`a_b{d}`: c'
    assert with_api_links("| 0 | Produce | 0-13 |") == "| 0 | [Produce](../reference/apis/produce.md) | 0-13 |"
