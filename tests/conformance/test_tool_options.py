"""The table of options that pybroker serves or refuses (tests/data/tools/options.tsv) has all options of Kafka's tools.

`--help` of Apache Kafka's own tools lists them.
"""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.support.java import KAFKA_LINE, java_command, kafka_classpath
from tests.support.recorded_answers import RecordedAnswers
from tests.support.tools import MAIN_CLASSES, tool_options

pytestmark = pytest.mark.skipif(KAFKA_LINE < (4, 4), reason="the table is of the newest release")

_TABLE = {(tool, option) for tool, option, *_ in tool_options()}
_ACTIONS = {
    "kafka-cluster": ("cluster-id", "unregister", "unregister-controller", "list-endpoints", "api-versions"),
    "kafka-metadata-quorum": ("", "describe", "add-controller", "remove-controller"),
    "kafka-storage": ("info", "format", "version-mapping", "feature-dependencies", "random-uuid"),
}
#: Options in the help of joptsimple begin a line. argparse4j indents them, and lists several of one meaning.
_BEGINS_LINE = re.compile(r"^--?[a-zA-Z][\w.-]*", re.MULTILINE)
_INDENTED = re.compile(r"(?:^  |, )(--?[a-zA-Z][\w.-]*)(?= |,|$)", re.MULTILINE)


def _options(tool: str) -> list[str]:
    """Ask Apache Kafka's tool. Each gets a JVM of its own, which the help of some ends."""
    options: set[str] = set()
    for action in _ACTIONS.get(tool, ("",)):
        command = java_command(MAIN_CLASSES[tool], [*action.split(), "--help"], [kafka_classpath()])
        text = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
        _, argparse4j, listed = text.partition("optional arguments:")
        options.update(_INDENTED.findall(listed) if argparse4j else _BEGINS_LINE.findall(text))
    return sorted(options)


@pytest.mark.parametrize("tool", sorted({tool for tool, _ in _TABLE}))
def test_table_has_all_options_of_the_tool(recorded: RecordedAnswers, tool: str) -> None:
    options = recorded.of(tool, lambda: _options(tool))

    assert options == sorted(option for owner, option in _TABLE if owner == tool)
