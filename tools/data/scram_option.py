"""`pybroker format --add-scram`: the first users of a cluster, in the syntax of Apache Kafka's kafka-storage.

--add-scram 'SCRAM-SHA-256=[name=admin,password=admin-secret]'
--add-scram 'SCRAM-SHA-512=[name=admin,iterations=8192,salt="MWx2...",saltedpassword="mT0y..."]'
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error as NoBase64
from collections.abc import Callable

from metadata.features import SCRAM_LEVEL
from metadata.framing import MetadataRecord
from metadata.scram import credential_record
from security.sasl.scram import new_nonce
from security.sasl.scram_credential import (
    BY_SASL_NAME,
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    ScramMechanism,
)
from tools.errors import FormatRefused

_OPTION = re.compile(r"([^=]+)=\[(.+)\]")
_FIELDS = ("name", "password", "salt", "saltedpassword", "iterations")
#: The default of `iterations`.
_DEFAULT_ITERATIONS = MIN_ITERATIONS


def scram_records(options: list[str], metadata_version: int, random_bits: Callable[[int], int]) -> list[MetadataRecord]:
    """Return the metadata records of the users in `options`. Raises FormatRefused; no message contains a password."""
    if options and metadata_version < SCRAM_LEVEL:
        raise FormatRefused("SCRAM is only supported in metadata.version 3.5-IV2 or later.")
    return [_record(option, metadata_version, random_bits) for option in options]


def _record(option: str, metadata_version: int, random_bits: Callable[[int], int]) -> MetadataRecord:
    match = _OPTION.fullmatch(option.strip())
    if match is None:
        raise FormatRefused("Failed to parse --add-scram: the format is MECHANISM=[name=...,password=...]")
    mechanism = BY_SASL_NAME.get(match[1].strip())
    if mechanism is None:
        raise FormatRefused(f"The add-scram mechanism {match[1]} is not supported.")
    fields = _fields(match[2])
    user = fields.get("name")
    if not user:
        raise FormatRefused("You must supply 'name' to add-scram")
    iterations = _iterations(fields.get("iterations"))
    salt = _decoded(fields["salt"], "salt") if "salt" in fields else new_nonce(random_bits).encode()
    salted_password = _salted_password(fields, mechanism, salt, iterations)
    return credential_record(metadata_version, user, mechanism, salted_password, salt, iterations)


def _salted_password(fields: dict[str, str], mechanism: ScramMechanism, salt: bytes, iterations: int) -> bytes:
    if "saltedpassword" not in fields:
        if not fields.get("password"):
            raise FormatRefused("You must supply one of 'password' or 'saltedpassword' to add-scram")
        return mechanism.salted_password(fields["password"], salt, iterations)
    if "password" in fields:
        raise FormatRefused("You must only supply one of 'password' or 'saltedpassword' to add-scram")
    if "salt" not in fields:
        raise FormatRefused("You must supply 'salt' with 'saltedpassword' to add-scram")
    return _decoded(fields["saltedpassword"], "saltedpassword")


def _fields(text: str) -> dict[str, str]:
    """Parse `name=value` pairs, separated by commas; values may be quoted."""
    fields: dict[str, str] = {}
    for match in re.finditer(r'\s*([^=,]+?)\s*=\s*(?:"([^"]*)"|([^,]*))\s*(?:,|\Z)', text):
        name = match[1].lower()
        if name not in _FIELDS:
            raise FormatRefused(f"unknown field {name} in add-scram; the fields are {', '.join(_FIELDS)}")
        fields[name] = match[3] if match[2] is None else match[2]
    return fields


def _iterations(text: str | None) -> int:
    if text is None:
        return _DEFAULT_ITERATIONS
    if not text.isdecimal() or not MIN_ITERATIONS <= int(text) <= MAX_ITERATIONS:
        raise FormatRefused(f"The 'iterations' value must be >= {MIN_ITERATIONS} and <= {MAX_ITERATIONS} for add-scram")
    return int(text)


def _decoded(text: str, name: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except NoBase64:
        raise FormatRefused(f"The '{name}' of add-scram is not base64") from None
