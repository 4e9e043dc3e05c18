"""Parse the YAML of a specification. PyYAML comes with `pybroker[pipeline]`; the command's help works without it."""

from __future__ import annotations

import re
from typing import Any

import yaml
from yaml.composer import ComposerError

from pybroker.pipeline.values import SpecError

# Words that YAML 1.1 reads as booleans and times, and people as words
_BOOLEAN, _TIMESTAMP = "tag:yaml.org,2002:bool", "tag:yaml.org,2002:timestamp"
# `<<`, which may stand for several mappings
_MERGE = "tag:yaml.org,2002:merge"


class _Loader(yaml.SafeLoader):
    """YAML with the booleans of its version 1.2: `on` is a word, not true. Times are words as well.

    A duplicate key is an error, as in YAML's standard. PyYAML would silently drop the first one, for example a stream.
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
                    raise ComposerError(None, None, f"the key {key.value!r} is a duplicate", key.start_mark)
                seen.add(key.value)
        return node


_Loader.add_implicit_resolver(_BOOLEAN, re.compile(r"true|false"), list("tf"))


def parse(text: str) -> object:
    """Return the mappings, lists and words of a specification. Raises SpecError with the place of a syntax error."""
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
