"""The page about partitions: drawings of directories, offsets and wrapper messages."""

from __future__ import annotations

import re

from tools.site.diagrams import (
    Mark,
    Tree,
    offsets_diagram,
    tree_diagram,
)
from tools.site.pages import reference_pages
from tools.site.partitions import partitions_page

TEXT = re.compile("<text [^>]*>([^<]*)</text>")
#: A line of a tree: its start and end.
LINE = re.compile("<path d=.M([0-9.]+) ([0-9.]+)H[0-9.]+V([0-9.]+)H([0-9.]+)")


def test_hierarchy_is_that_of_the_files() -> None:
    """Each segment has its files, named after its first offset."""
    hierarchy, _ = (part.partition("</svg>")[0] for part in partitions_page().split("<svg ")[1:])
    texts = TEXT.findall(hierarchy)
    partitions = [f"{topic}-{number}/" for topic in ("launch_info", "report_push") for number in range(4)]
    assert [text for text in texts if text.endswith("/")] == partitions
    segments = [text.split() for text in texts if text.startswith("segment: ")]
    assert [words[-1] == "active" for words in segments] == [False, False, False, True]
    for _, first, *_ in segments:
        stem = first.zfill(20)
        at = texts.index(f"{stem}.log")
        assert {f"{stem}.index", f"{stem}.timeindex"} < set(texts[at : at + 4])
    assert texts.index("report_push-1/") == texts.index("partition.metadata") + 1


def test_offsets_are_in_order() -> None:
    """In a log where all of them differ."""
    texts = TEXT.findall(partitions_page().split("<svg ")[2])
    marks = dict(text.split(": ") for text in texts if ":" in text)
    assert marks == {"log start offset": "3", "last stable offset": "9", "high watermark": "12", "log end offset": "15"}


def test_offsets_in_wrapper_messages() -> None:
    """Absolute in v0, relative in v1. The wrapper has the offset of its last message."""
    page = reference_pages()["reference/formats/message-sets.md"].partition("\n## A wrapper")[2]
    wrapper, *figures = (TEXT.findall(part.partition("</svg>")[0]) for part in page.split("<svg ")[1:])
    assert "key" not in wrapper
    assert wrapper[-3] == "value: a message set, compressed"
    for magic, figure in enumerate(figures):
        outer, first, second, dots, last = figure
        assert outer.startswith(f"v{magic}, offset 1019, gzip, ")
        inner = (1000, 1001, 1019) if magic == 0 else (0, 1, 19)
        assert [int(text.split(":")[0].removeprefix("offset ")) for text in (first, second, last)] == list(inner)
        assert [text.split(": ")[1] for text in (first, second, last)] == [
            f"record {offset} of the partition" for offset in (1000, 1001, 1019)
        ]
        assert dots == "..."


def test_lines_of_a_tree() -> None:
    """From each node to its children; the first is on the same level."""
    figure = tree_diagram([Tree("a", [Tree("<b>", [Tree("c"), Tree("d")]), Tree("e")]), Tree("f")])
    lines = [tuple(map(float, line)) for line in LINE.findall(figure)]
    assert len(lines) == 4
    assert sum(start == end for _, start, end, _ in lines) == 2
    assert TEXT.findall(figure) == ["a", "&lt;b&gt;", "c", "d", "e", "f"]


def test_offset_without_a_record_is_dashed() -> None:
    """It may be highlighted."""
    figure = offsets_diagram(2, [Mark("end", 2)])
    assert TEXT.findall(figure) == ["0", "1", "2", "end: 2"]
    assert figure.count("stroke-dasharray") == 1
