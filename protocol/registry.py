"""Every API by its key; the module of an API is imported when it is first asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

from protocol.api_keys import ApiKey
from protocol.schema import Api


class Registry(Mapping[int, Api]):
    """API key -> Api. An API lives in the module, and under the name, of its key: FETCH in protocol.messages.fetch."""

    def __init__(self) -> None:
        self._loaded: dict[int, Api] = {}

    def __getitem__(self, key: int) -> Api:
        api = self.find(key)
        if api is None:
            raise KeyError(key)
        return api

    def find(self, key: int) -> Api | None:
        """The API of that key, or None: `get`, but quick, since every request's header asks it."""
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
