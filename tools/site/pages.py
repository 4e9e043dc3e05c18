"""All generated pages, and their places in the site's menu."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from protocol.registry import API_BY_KEY
from tools.site.commands import command_pages
from tools.site.error_codes import error_codes_page
from tools.site.formats import format_pages
from tools.site.messages import api_pages, api_path
from tools.site.partitions import partitions_page
from tools.site.states import states_page

_ITEM = re.compile(r"^- `([^`\s{]+)", re.MULTILINE)
_API_ROW = re.compile(r"^(\| (\d+) \| )(\w+)( \|)", re.MULTILINE)


@cache
def reference_pages() -> Mapping[str, str]:
    """Return pages by path."""
    return {
        "reference/error-codes.md": error_codes_page(),
        "reference/states.md": states_page(),
        "reference/formats/partitions.md": partitions_page(),
        **format_pages(),
        **command_pages(),
        **api_pages(),
    }


def command_menu() -> list[dict[str, str]]:
    """Return the commands' pages, by name."""
    paths = [path for path in reference_pages() if path.startswith("reference/commands/")]
    return [{_title(reference_pages()[path]): path} for path in paths]


def _title(page: str) -> str:
    return page.partition("\n")[0].removeprefix("# ")


def with_anchors(text: str) -> str:
    """Add an anchor to each item of a generated list, such as #log.segment.bytes."""
    return _ITEM.sub(r'- <a id="\1"></a>`\1', text)


def with_api_links(text: str) -> str:
    """Link the rows of the table of APIs to their pages."""

    def linked(match: re.Match[str]) -> str:
        return f"{match[1]}[{match[3]}](../{api_path(API_BY_KEY[int(match[2])])}){match[4]}"

    return _API_ROW.sub(linked, text)
