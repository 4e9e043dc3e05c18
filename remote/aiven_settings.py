"""The settings of Aiven's plugin for tiered storage, and what obstore needs to reach the same bucket.

Compression, encryption, segments in Iceberg's format, proxies and Java classes are refused. Keys of the plugin's caches
and metrics have no effect: pybroker has others.
"""

from __future__ import annotations

import os.path

from remote.given import Given
from remote.stored_where import LayoutKind, StorageSettings, checked_prefix

_PACKAGE = "io.aiven.kafka.tieredstorage.storage"
FILE_SYSTEM, S3, GCS, AZURE = (
    f"{_PACKAGE}.filesystem.FileSystemStorage",
    f"{_PACKAGE}.s3.S3Storage",
    f"{_PACKAGE}.gcs.GcsStorage",
    f"{_PACKAGE}.azure.AzureBlobStorage",
)
#: The fields of the custom metadata, by their tags.
CUSTOM_FIELDS = ("REMOTE_SIZE", "OBJECT_PREFIX", "OBJECT_KEY")
#: Settings that would change what is stored, or need a Java class: each may only have this value.
_ONLY = {
    "compression.enabled": ("false", "segments are stored as they are"),
    "compression.heuristic.enabled": ("false", "segments are stored as they are"),
    "encryption.enabled": ("false", "segments are stored as they are; encrypt the bucket instead"),
    "segment.format": ("kafka", "only Kafka's format is supported"),
    "storage.aws.credentials.provider.class": (
        "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider",
        "Java classes are not supported",
    ),
    "storage.aws.credentials.file": ("", "not supported; use ${file:...} in the keys, or the environment"),
    "storage.proxy.host": ("", "proxies are not supported"),
}
_COMMON = (
    *("storage.backend.class", "chunk.size", "key.prefix", "key.prefix.mask", "custom.metadata.fields.include"),
    *_ONLY,
)
_KEYS = {
    FILE_SYSTEM: ("root", "overwrite.enabled"),
    S3: (
        *("s3.bucket.name", "s3.region", "s3.endpoint.url", "s3.path.style.access.enabled", "s3.storage.class"),
        *("s3.multipart.upload.part.size", "s3.api.call.timeout", "s3.api.call.attempt.timeout"),
        *("aws.access.key.id", "aws.secret.access.key", "aws.session.token", "aws.certificate.check.enabled"),
    ),
    GCS: (
        *("gcs.bucket.name", "gcs.endpoint.url", "gcs.credentials.json", "gcs.credentials.path"),
        *("gcs.credentials.default", "gcs.resumable.upload.chunk.size"),
    ),
    AZURE: (
        *("azure.container.name", "azure.account.name", "azure.account.key", "azure.sas.token"),
        *("azure.connection.string", "azure.endpoint.url", "azure.upload.block.size"),
    ),
}
_STORE = "storage."
_INT_MAX = (1 << 31) - 1
_LONG_MAX = (1 << 63) - 1
_LONGEST_MS = 3_600_000
#: S3's smallest part; the plugin has the same limit.
_LEAST_PART_BYTES = 5 << 20


def read_aiven(given: Given) -> StorageSettings:
    """Return where the plugin would store segments. Raises SettingError."""
    for key, (only, reason) in _ONLY.items():
        if (value := given.text(key)) is not None and value.lower() != only.lower():
            raise given.refused(key, reason, only)
    backend = given.required("storage.backend.class")
    if backend not in _KEYS:
        raise given.refused("storage.backend.class", "this storage is not supported", ", ".join(_KEYS))
    url, location_key, options = _BACKENDS[backend](given)
    prefix = given.text("key.prefix") or ""
    attempt_ms = given.number("storage.s3.api.call.attempt.timeout", 0, _LONG_MAX)
    timeout_ms = attempt_ms or given.number("storage.s3.api.call.timeout", 30_000, _LONG_MAX)
    return StorageSettings(
        layout=LayoutKind.AIVEN,
        url=url,
        location_key=location_key,
        options=options,
        prefix=checked_prefix(given, "key.prefix", prefix),
        chunk_bytes=given.number("chunk.size", StorageSettings.chunk_bytes, _INT_MAX // 2),
        custom_fields=given.words("custom.metadata.fields.include", CUSTOM_FIELDS),
        timeout_s=min(timeout_ms, _LONGEST_MS) / 1000,
        part_bytes=_part_bytes(given),
        storage_class=given.text("storage.s3.storage.class") if backend == S3 else None,
        checks_certificates=given.flag("storage.aws.certificate.check.enabled") is not False,
        ignored=tuple(given.others((*_COMMON, *(_STORE + key for key in _KEYS[backend])))),
    )


def _part_bytes(given: Given) -> int:
    names = ("s3.multipart.upload.part.size", "gcs.resumable.upload.chunk.size", "azure.upload.block.size")
    for key in (_STORE + name for name in names):
        if given.text(key) is not None:
            return max(_LEAST_PART_BYTES, given.number(key, 0, _INT_MAX))
    return StorageSettings.part_bytes


def _directory(given: Given) -> tuple[str, str, dict[str, str]]:
    return f"file://{os.path.abspath(given.required('storage.root'))}", "storage.root", {}


def _s3(given: Given) -> tuple[str, str, dict[str, str]]:
    bucket = given.required("storage.s3.bucket.name")
    keys = [given.text(f"storage.aws.{name}") for name in ("access.key.id", "secret.access.key")]
    if keys.count(None) == 1:
        raise given.refused("storage.aws.secret.access.key", "must be set together with storage.aws.access.key.id")
    options = _options(
        given,
        {
            "s3.endpoint.url": "aws_endpoint",
            "s3.region": "aws_region",
            "aws.access.key.id": "aws_access_key_id",
            "aws.secret.access.key": "aws_secret_access_key",
            "aws.session.token": "aws_session_token",
        },
    )
    if given.flag("storage.s3.path.style.access.enabled") is False:
        options["aws_virtual_hosted_style_request"] = "true"
        if endpoint := options.get("aws_endpoint"):  # obstore wants the bucket in it
            scheme, _, host = endpoint.rpartition("://")
            options["aws_endpoint"] = f"{scheme}://{bucket}.{host}"
    return f"s3://{bucket}", "storage.s3.bucket.name", options


def _gcs(given: Given) -> tuple[str, str, dict[str, str]]:
    options = _options(
        given,
        {
            "gcs.endpoint.url": "google_base_url",
            "gcs.credentials.json": "google_service_account_key",
            "gcs.credentials.path": "google_service_account",
        },
    )
    if given.flag("storage.gcs.credentials.default") is False:
        options["google_skip_signature"] = "true"
    return f"gs://{given.required('storage.gcs.bucket.name')}", "storage.gcs.bucket.name", options


def _azure(given: Given) -> tuple[str, str, dict[str, str]]:
    container = given.required("storage.azure.container.name")
    options = _options(
        given,
        {
            "azure.account.name": "azure_storage_account_name",
            "azure.account.key": "azure_storage_account_key",
            "azure.sas.token": "azure_storage_sas_key",
            "azure.endpoint.url": "azure_endpoint",
        },
    )
    fields = dict(
        part.partition("=")[::2] for part in (given.text("storage.azure.connection.string") or "").split(";") if part
    )
    for name, ours in {
        "AccountName": "azure_storage_account_name",
        "AccountKey": "azure_storage_account_key",
        "SharedAccessSignature": "azure_storage_sas_key",
        "BlobEndpoint": "azure_endpoint",
    }.items():
        if name in fields:
            options[ours] = fields[name]
    if "azure_storage_account_name" not in options:
        raise given.refused("storage.azure.account.name", "must be set, or be part of storage.azure.connection.string")
    return f"az://{container}", "storage.azure.container.name", options


def _options(given: Given, names: dict[str, str]) -> dict[str, str]:
    return {theirs: value for ours, theirs in names.items() if (value := given.text(_STORE + ours)) is not None}


_BACKENDS = {FILE_SYSTEM: _directory, S3: _s3, GCS: _gcs, AZURE: _azure}
