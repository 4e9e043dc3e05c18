"""Read the schemas of a subject from a registry."""

from __future__ import annotations

from collections.abc import Mapping

from pybroker.schema_registry import RegistryError, SchemaRegistry

_TIMEOUT_S = 10


def schemas_of(address: str, subject: str) -> Mapping[int, str]:
    """Return the Avro schemas of all versions of a subject by id, the newest last.

    The address may contain user and password. Errors: RegistryError.
    """
    try:
        registry = SchemaRegistry(address, _TIMEOUT_S)
    except ValueError:
        raise RegistryError("parse.registry is not an address such as http://127.0.0.1:8081") from None
    versions = registry.ask("subjects", subject, "versions")
    schemas: dict[int, str] = {}
    for version in versions if isinstance(versions, list) else []:
        answer = registry.ask("subjects", subject, "versions", str(version))
        try:
            number, schema, kind = int(answer["id"]), answer["schema"], answer.get("schemaType", "AVRO")
        except (TypeError, KeyError, AttributeError, ValueError):
            raise RegistryError(f"{registry.url}: version {version} of {subject} has no id and schema") from None
        if kind != "AVRO" or answer.get("references"):
            problem = f"is {kind}, not Avro" if kind != "AVRO" else "refers to other subjects, which is not supported"
            raise RegistryError(f"{registry.url}: version {version} of {subject} {problem}")
        schemas.pop(number, None)
        schemas[number] = str(schema)
    if not schemas:
        raise RegistryError(f"{registry.url}: there are no versions of {subject}")
    return schemas
