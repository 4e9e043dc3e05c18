"""All APIs by key. The module of an API is imported on first use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

from protocol.api_keys import ApiKey
from protocol.schema import Api


class Registry(Mapping[int, Api]):
    """A mapping from API key to Api. The Api of FETCH is `protocol.messages.fetch.FETCH`."""

    def __init__(self) -> None:
        self._loaded: dict[int, Api] = {}

    def __getitem__(self, key: int) -> Api:
        api = self.find(key)
        if api is None:
            raise KeyError(key)
        return api

    def find(self, key: int) -> Api | None:
        """Return the API of a key, or None. It is faster than `get`, because every request header needs it."""
        api = self._loaded.get(key)
        if api is None and key in _KEYS:
            name = ApiKey(key).name
            api = self._loaded[key] = getattr(import_module(f"protocol.messages.{name.lower()}"), name)
        return api

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(_KEYS))

    def __len__(self) -> int:
        return len(_KEYS)

    def __contains__(self, key: object) -> bool:
        return key in _KEYS


_KEYS = frozenset(map(int, ApiKey))
API_BY_KEY = Registry()
