"""The YAML of a specification. PyYAML comes with `pybroker[pipeline]`: whoever only shows a command line has none."""

from __future__ import annotations

import re
from typing import Any

import yaml
from yaml.composer import ComposerError

from pybroker.pipeline.values import SpecError

# What YAML 1.1 takes for booleans and times, and a reader for words
_BOOLEAN, _TIMESTAMP = "tag:yaml.org,2002:bool", "tag:yaml.org,2002:timestamp"
# `<<`, which may stand for several mappings
_MERGE = "tag:yaml.org,2002:merge"


class _Loader(yaml.SafeLoader):
    """YAML with the booleans of its version 1.2: `on` is a word, not true. Times are words as well.

    A key that is there twice is an error, as YAML has it and PyYAML has not: the first one's stream would be left out.
    """

    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag not in (_BOOLEAN, _TIMESTAMP)]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        seen = set[str]()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE:
                if key.value in seen:
                    raise ComposerError(None, None, f"the key {key.value!r} is there twice", key.start_mark)
                seen.add(key.value)
        return node


_Loader.add_implicit_resolver(_BOOLEAN, re.compile(r"true|false"), list("tf"))


def parse(text: str) -> object:
    """What stands in a specification: mappings, lists, words. Raises SpecError with the place where it is no YAML."""
    try:
        return yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as error:
        mark, problem = (
            error.problem_mark,
            f"{error.problem or error}" + (f", {error.context}" if error.context else ""),
        )
        raise SpecError(f"line {mark.line + 1}, column {mark.column + 1}" if mark else "", problem) from error
    except (yaml.YAMLError, ValueError) as error:  # the latter of words that are not what their tag says
        raise SpecError("", str(error).partition("\n")[0]) from error
