"""From a broker's settings to a store and a layout: three classes, what each refuses, and nothing of a secret."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from remote.aiven_layout import AivenLayout
from remote.aiven_settings import AZURE, FILE_SYSTEM, GCS, S3
from remote.configured import layout_of
from remote.errors import SettingError
from remote.local_tiered_layout import FOLDER, LocalTieredLayout, key_of
from remote.storage_settings import AIVEN_CLASS, LOCAL_TIERED_CLASS, OWN_CLASS, read_settings, setting_errors
from remote.stored_where import LayoutKind
from tests.unit.remote.recorded import AIVEN, copied_segments

SECRET = "a-secret-value"


def aiven(backend: str, **values: str) -> dict[str, str]:
    return {"storage.backend.class": backend, **{key.replace("_", "."): value for key, value in values.items()}}


def test_local_tiered_storage_makes_its_directory(tmp_path: Path) -> None:
    layout = layout_of(LOCAL_TIERED_CLASS, {"dir": str(tmp_path / "a" / "b")})
    assert isinstance(layout, LocalTieredLayout)
    assert (tmp_path / "a" / "b" / FOLDER).is_dir()


@pytest.mark.parametrize("given", [{"delete.on.close": "true"}, {}])
def test_only_delete_on_close_deletes_at_the_end(given: dict[str, str], tmp_path: Path) -> None:
    layout = layout_of(LOCAL_TIERED_CLASS, {"dir": str(tmp_path), **given})
    file = tmp_path / FOLDER / "orders-0-id" / "1.log"
    file.parent.mkdir()
    file.touch()
    layout.close()
    assert file.exists() is not bool(given)


def test_without_the_delete_api_nothing_is_deleted(tmp_path: Path) -> None:
    layout = layout_of(LOCAL_TIERED_CLASS, {"dir": str(tmp_path), "delete.enable": "false"})
    copy = next(copied_segments(AIVEN))
    file = tmp_path / key_of(*copy, "log")
    file.parent.mkdir(parents=True)
    file.touch()
    layout.delete(*copy)
    assert file.exists()


def test_a_bucket_of_the_plugin_is_the_same_bucket() -> None:
    chosen = read_settings(
        AIVEN_CLASS,
        aiven(
            S3,
            storage_s3_bucket_name="segments",
            storage_s3_endpoint_url="http://127.0.0.1:9000",
            storage_s3_region="eu-west-1",
            storage_s3_path_style_access_enabled="true",
            storage_aws_access_key_id="someone",
            storage_aws_secret_access_key=SECRET,
            storage_s3_api_call_timeout="2500",
            key_prefix="one/two",
            chunk_size="1000",
            custom_metadata_fields_include="OBJECT_KEY, REMOTE_SIZE",
            fetch_chunk_cache_size="-1",
        ),
    )
    assert chosen.url == "s3://segments"
    assert chosen.layout is LayoutKind.AIVEN
    assert dict(chosen.options) == {
        "aws_endpoint": "http://127.0.0.1:9000",
        "aws_region": "eu-west-1",
        "aws_access_key_id": "someone",
        "aws_secret_access_key": SECRET,
    }
    assert (chosen.prefix, chosen.chunk_bytes, chosen.timeout_s) == ("one/two", 1000, 2.5)
    assert chosen.custom_fields == ("OBJECT_KEY", "REMOTE_SIZE")
    assert chosen.ignored == ("fetch.chunk.cache.size",)
    assert SECRET not in repr(chosen)


def test_virtual_hosts_have_the_bucket_in_the_endpoint() -> None:
    given = aiven(S3, storage_s3_bucket_name="segments", storage_s3_endpoint_url="https://store.example")
    given["storage.s3.path.style.access.enabled"] = "false"
    options = read_settings(AIVEN_CLASS, given).options
    assert options["aws_endpoint"] == "https://segments.store.example"
    assert options["aws_virtual_hosted_style_request"] == "true"


def test_google_and_azure_by_the_keys_of_the_plugin() -> None:
    google = read_settings(
        AIVEN_CLASS, aiven(GCS, storage_gcs_bucket_name="b", storage_gcs_credentials_default="false")
    )
    assert (google.url, dict(google.options)) == ("gs://b", {"google_skip_signature": "true"})
    connection = f"AccountName=me;AccountKey={SECRET}==;BlobEndpoint=http://127.0.0.1:10000/me"
    azure = read_settings(
        AIVEN_CLASS, aiven(AZURE, storage_azure_container_name="c", storage_azure_connection_string=connection)
    )
    assert azure.url == "az://c"
    assert dict(azure.options) == {
        "azure_storage_account_name": "me",
        "azure_storage_account_key": f"{SECRET}==",
        "azure_endpoint": "http://127.0.0.1:10000/me",
    }


def test_the_own_class_needs_one_url() -> None:
    chosen = read_settings(OWN_CLASS, {"url": "s3://segments/one/two/", "region": "eu-west-1"})
    assert (chosen.url, chosen.prefix, dict(chosen.options)) == (
        "s3://segments",
        "one/two/",
        {"aws_region": "eu-west-1"},
    )


@pytest.mark.parametrize(
    "given",
    [
        aiven(S3, storage_s3_bucket_name="b", storage_aws_access_key_id="x", storage_aws_secret_access_key=SECRET),
        aiven(GCS, storage_gcs_bucket_name="b", storage_gcs_credentials_default="false"),
        aiven(AZURE, storage_azure_container_name="c", storage_azure_account_name="me"),
    ],
    ids=["s3", "gcs", "azure"],
)
def test_stores_of_all_buckets_are_made_without_a_connection(given: dict[str, str]) -> None:
    assert isinstance(layout_of(AIVEN_CLASS, given), AivenLayout)


@pytest.mark.parametrize(
    ("class_name", "given", "key", "said"),
    [
        (None, {}, "remote.log.storage.manager.class.name", "must be set; allowed: org.apache.kafka"),
        ("com.example.Store", {}, "remote.log.storage.manager.class.name", "com.example.Store: this storage class is"),
        (LOCAL_TIERED_CLASS, {}, "rsm.config.dir", "must be set"),
        (LOCAL_TIERED_CLASS, {"dir": "/proc/nowhere"}, "rsm.config.dir", "/proc/nowhere: this directory cannot be"),
        (LOCAL_TIERED_CLASS, {"dir": "/", "delete.on.close": "1"}, "rsm.config.delete.on.close", "true, false"),
        (LOCAL_TIERED_CLASS, {"dir": "/", "transferer.class": "T"}, "rsm.config.transferer.class", "Java classes"),
        (AIVEN_CLASS, {}, "rsm.config.storage.backend.class", "must be set"),
        (AIVEN_CLASS, aiven("Other"), "rsm.config.storage.backend.class", f"allowed: {FILE_SYSTEM}"),
        (AIVEN_CLASS, aiven(FILE_SYSTEM, storage_root="/nowhere"), "rsm.config.storage.root", "must be a directory"),
        (AIVEN_CLASS, aiven(S3), "rsm.config.storage.s3.bucket.name", "must be set"),
        (AIVEN_CLASS, aiven(S3, compression_enabled="true"), "rsm.config.compression.enabled", "allowed: false"),
        (AIVEN_CLASS, aiven(S3, encryption_enabled="true"), "rsm.config.encryption.enabled", "encrypt the bucket"),
        (AIVEN_CLASS, aiven(S3, segment_format="iceberg"), "rsm.config.segment.format", "allowed: kafka"),
        (
            AIVEN_CLASS,
            aiven(FILE_SYSTEM, storage_root="/", chunk_size="0"),
            "rsm.config.chunk.size",
            "1 to 1073741823",
        ),
        (AIVEN_CLASS, aiven(FILE_SYSTEM, storage_root="/", key_prefix="../a"), "rsm.config.key.prefix", "empty part"),
        (
            AIVEN_CLASS,
            aiven(S3, storage_s3_bucket_name="b", storage_aws_secret_access_key=SECRET),
            "rsm.config.storage.aws.secret.access.key",
            "together with",
        ),
        (AIVEN_CLASS, aiven(S3, storage_proxy_host="p"), "rsm.config.storage.proxy.host", "proxies"),
        (OWN_CLASS, {"url": "ftp://host/x"}, "rsm.config.url", "allowed: s3://, gs://, az://, file://"),
        (OWN_CLASS, {"url": f"s3://me:{SECRET}@bucket"}, "rsm.config.url", "credentials have keys of their own"),
        (OWN_CLASS, {"url": "s3://"}, "rsm.config.url", "names no bucket"),
        (OWN_CLASS, {"url": "s3://b", "account.key": SECRET}, "rsm.config.account.key", "unknown key for s3://"),
        (OWN_CLASS, {"url": "file:///", "timeout.ms": "soon"}, "rsm.config.timeout.ms", "soon: not a number"),
    ],
)
def test_a_setting_that_cannot_be_used_is_one_line(
    class_name: str | None, given: dict[str, str], key: str, said: str
) -> None:
    with pytest.raises(SettingError) as raised:
        layout_of(class_name, given)
    text = str(raised.value)
    assert raised.value.key == key
    assert text.startswith(key)
    assert said in text
    assert SECRET not in text
    assert "\n" not in text


def test_another_prefix_is_in_the_message() -> None:
    with pytest.raises(SettingError, match=r"^mine\.dir: must be set"):
        layout_of(LOCAL_TIERED_CLASS, {}, "mine.")


def test_a_missing_extra_is_an_error_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "remote.object_store", None)
    with pytest.raises(SettingError, match=r"rsm\.config\.url=s3://b: needs .*: pip install 'pybroker\[tiered\]'"):
        layout_of(OWN_CLASS, {"url": "s3://b"})


def test_a_directory_needs_no_library_for_buckets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "remote.object_store", None)
    assert isinstance(layout_of(OWN_CLASS, {"url": f"file://{tmp_path}"}), AivenLayout)


def test_all_settings_that_cannot_be_used_are_found() -> None:
    given = {"url": "s3://bucket", "chunk.size": "0", "timeout.ms": "soon", "colour": "blue", "shape": "round"}
    errors = setting_errors(OWN_CLASS, given, "rsm.config.")
    assert sorted(each.key for each in errors) == [f"rsm.config.{key}" for key in sorted(given) if key != "url"]
    assert setting_errors(OWN_CLASS, {"url": "s3://bucket"}, "rsm.config.") == []


def test_missing_setting_behind_a_bad_one_is_not_reported() -> None:
    """A wrong URL is one problem, not also a missing one."""
    [error] = setting_errors(OWN_CLASS, {"url": "ftp://bucket"}, "rsm.config.")
    assert error.key == "rsm.config.url"
    [error] = setting_errors(OWN_CLASS, {}, "rsm.config.")
    assert error.reason == "must be set"
    [error] = setting_errors("Nothing", {}, "rsm.config.")
    assert error.value == "Nothing"
