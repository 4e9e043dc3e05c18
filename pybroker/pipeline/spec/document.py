"""The YAML of a specification. PyYAML comes with `pybroker[pipeline]`: whoever only shows a command line has none."""

from __future__ import annotations

import re

import yaml

from pybroker.pipeline.values import SpecError

# What YAML 1.1 takes for booleans and times, and a reader for words
_BOOLEAN, _TIMESTAMP = "tag:yaml.org,2002:bool", "tag:yaml.org,2002:timestamp"


class _Loader(yaml.SafeLoader):
    """YAML with the booleans of its version 1.2: `on` is a word, not true. Times are words as well."""

    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag not in (_BOOLEAN, _TIMESTAMP)]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


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
    except yaml.YAMLError as error:
        raise SpecError("", str(error).partition("\n")[0]) from error
