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
        api = self._loaded.get(key)
        if api is None:
            if key not in _KEYS:
                raise KeyError(key)
            name = ApiKey(key).name
            api = self._loaded[key] = getattr(import_module(f"protocol.messages.{name.lower()}"), name)
        return api

    def __iter__(self) -> Iterator[int]:
        return iter(_KEYS)

    def __len__(self) -> int:
        return len(_KEYS)

    def __contains__(self, key: object) -> bool:
        return key in _KEYS


_KEYS = {int(key): key for key in ApiKey}
API_BY_KEY = Registry()
