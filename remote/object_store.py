"""Objects in S3, Google Cloud Storage or Azure, by obstore (Apache Arrow's object_store).

The library is imported with this module, so only where a bucket is configured. A store must not be used before a fork:
the copy in the other process never answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import obstore
from obstore import exceptions
from obstore.store import from_url

from remote.errors import Damaged
from remote.object_errors import first_line, reported
from remote.store import Listed, Source

#: The library tries for three minutes if nothing is set. Tries of whole requests are made by GuardedStore, which counts
#: failures; only the parts of a large object are tried again here.
_ONE_TRY: dict[str, Any] = {"max_retries": 0, "retry_timeout": timedelta(seconds=1)}
_TRIES_OF_A_PART: dict[str, Any] = {
    "max_retries": 2,
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=1), "base": 2},
    "retry_timeout": timedelta(seconds=5),
}
_CONNECT_SECONDS = 5
#: An object of this size or more is stored in parts; a smaller one is faster in one request.
_MULTIPART_BYTES = 64 << 20
_PART_BYTES = 25 << 20
_MOST_PARTS_AT_ONCE = 4


class ObjectStore:
    """The objects of a bucket below the path in `url`: s3://, gs://, az:// or another scheme of object_store.

    `settings` are object_store's, such as `aws_endpoint`; other values come from the environment. `timeout_s` is for
    one request. Raises ValueError for a setting that the library does not know.
    """

    def __init__(
        self,
        url: str,
        settings: Mapping[str, str] | None = None,
        timeout_s: float = 30,
        *,
        part_bytes: int = _PART_BYTES,
        storage_class: str | None = None,
        checks_certificates: bool = True,
    ) -> None:
        self._part_bytes = part_bytes
        self._attributes: Any = {"Storage-Class": storage_class} if storage_class else None
        options: dict[str, Any] = {
            "timeout": timedelta(seconds=timeout_s),
            "connect_timeout": timedelta(seconds=_CONNECT_SECONDS),
            "allow_http": True,
            "allow_invalid_certificates": not checks_certificates,
        }
        is_local = url.startswith(("file:", "memory:"))
        config = dict(settings or {})

        def made(retries: dict[str, Any]) -> Any:
            return from_url(url, config=config, client_options=options, retry_config=None if is_local else retries)  # type: ignore[call-overload]

        try:
            self._store = made(_ONE_TRY)
            self._for_parts = self._store if is_local else made(_TRIES_OF_A_PART)
        except exceptions.BaseError as error:
            raise ValueError(f"{url}: {first_line(error)}") from error

    def put(self, key: str, content: bytes | Source) -> None:
        """Store an object, in parts if it is large."""
        try:
            if isinstance(content, bytes):
                self._put_whole(key, content)
            elif content.size_bytes < _MULTIPART_BYTES:
                self._put_whole(key, _first_bytes(content))
            else:
                self._put_in_parts(key, content)
        except Exception as error:
            raise reported(key, error) from error

    def _put_whole(self, key: str, content: bytes) -> None:
        obstore.put(self._store, key, content, mode="create", use_multipart=False, attributes=self._attributes)

    def _put_in_parts(self, key: str, source: Source) -> None:
        if Path(source.path).stat().st_size != source.size_bytes:
            raise Damaged(source.path, f"does not have {source.size_bytes} bytes")
        obstore.put(
            self._for_parts,
            key,
            Path(source.path),
            use_multipart=True,
            attributes=self._attributes,
            chunk_size=self._part_bytes,
            max_concurrency=_MOST_PARTS_AT_ONCE,
        )

    def get(self, key: str, start: int = 0, size_bytes: int | None = None) -> bytes:
        """Return a range of an object."""
        try:
            if size_bytes is None and not start:
                return bytes(obstore.get(self._store, key).bytes())
            end = obstore.head(self._store, key)["size"] if size_bytes is None else start + size_bytes
            data = bytes(obstore.get_range(self._store, key, start=start, end=end)) if end > start else b""
        except Exception as error:
            raise reported(key, error) from error
        if len(data) != end - start:
            raise Damaged(key, f"has {len(data)} bytes from {start} on, not {end - start}")
        return data

    def delete(self, keys: Sequence[str]) -> None:
        """Delete objects, one after the other where the store has no request for several."""
        for key in keys:
            try:
                obstore.delete(self._store, key)
            except FileNotFoundError:
                continue
            except Exception as error:
                raise reported(key, error) from error

    def list(self, prefix: str) -> Iterator[Listed]:
        """Yield page after page of the listing."""
        try:
            for page in obstore.list(self._store, prefix or None):
                for each in page:
                    yield Listed(each["path"], each["size"])
        except Exception as error:
            raise reported(prefix, error) from error


def _first_bytes(source: Source) -> bytes:
    with open(source.path, "rb") as file:
        content = file.read(source.size_bytes)
    if len(content) != source.size_bytes:
        raise Damaged(source.path, f"has {len(content)} bytes, not {source.size_bytes}")
    return content
