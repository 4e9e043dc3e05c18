"""--add-scram, in the syntax of kafka-storage."""

from __future__ import annotations

from base64 import b64encode

import pytest

from security.sasl.scram_credential import ScramMechanism, credential_of
from tools.data.scram_option import scram_records
from tools.errors import FormatRefused

SHA_512 = ScramMechanism.SCRAM_SHA_512


def random_bits(count: int) -> int:
    return (1 << count) - 1


def test_password_is_salted() -> None:
    """With a random salt and 4096 iterations by default."""
    (record,) = scram_records(['SCRAM-SHA-512=[name=admin,password="a, b=c"]'], 30, random_bits)
    salt = record.value.salt
    made = credential_of(SHA_512, SHA_512.salted_password("a, b=c", salt, 4096), salt, 4096)
    assert (record.value.name, record.value.mechanism, record.value.iterations) == ("admin", SHA_512, 4096)
    assert (record.value.stored_key, record.value.server_key) == (made.stored_key, made.server_key)
    assert len(salt) == 26


def test_salted_password_is_accepted() -> None:
    """So that the password is not on the command line."""
    salted = SHA_512.salted_password("secret", b"salt", 8192)
    fields = (
        f"name=admin,iterations=8192,salt={b64encode(b'salt').decode()},saltedpassword={b64encode(salted).decode()}"
    )
    (record,) = scram_records([f"SCRAM-SHA-512=[{fields}]"], 30, random_bits)
    assert record.value.stored_key == credential_of(SHA_512, salted, b"salt", 8192).stored_key


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("SCRAM-SHA-256", "Failed to parse"),
        ("SCRAM-SHA-1=[name=a,password=hidden]", "The add-scram mechanism SCRAM-SHA-1 is not supported"),
        ("SCRAM-SHA-256=[password=hidden]", "You must supply 'name' to add-scram"),
        ("SCRAM-SHA-256=[name=a]", "You must supply one of 'password' or 'saltedpassword' to add-scram"),
        ("SCRAM-SHA-256=[name=a,password=hidden,saltedpassword=AA==]", "You must only supply one of"),
        ("SCRAM-SHA-256=[name=a,saltedpassword=AA==]", "You must supply 'salt' with 'saltedpassword'"),
        ("SCRAM-SHA-256=[name=a,salt=AA==,saltedpassword=hidden!]", "not base64"),
        ("SCRAM-SHA-256=[name=a,password=hidden,iterations=1]", "must be >= 4096 and <= 16384"),
        ("SCRAM-SHA-256=[name=a,password=hidden,realm=x]", "unknown field realm"),
    ],
)
def test_bad_options_are_errors(option: str, message: str) -> None:
    with pytest.raises(FormatRefused) as refused:
        scram_records([option], 30, random_bits)
    assert message in str(refused.value)
    assert "hidden" not in str(refused.value)


def test_older_metadata_version_has_no_scram() -> None:
    with pytest.raises(FormatRefused, match=r"3\.5-IV2"):
        scram_records(["SCRAM-SHA-256=[name=a,password=b]"], 10, random_bits)
    assert scram_records([], 10, random_bits) == []
