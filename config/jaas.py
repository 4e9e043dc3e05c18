"""The JAAS file that KAFKA_OPTS names, for listeners without `sasl.jaas.config`.

KAFKA_OPTS="-Djava.security.auth.login.config=/etc/kafka/kafka_jaas.conf"
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from pybroker.text_files import UnreadableText, check_encoding, file_bytes
from security.jaas import LoginModule
from security.jaas_file import JaasFileError, Sections, parse_jaas_file

from .errors import ConfigError, Problem

VARIABLE = "KAFKA_OPTS"
_PROPERTY = "java.security.auth.login.config"
_SECTION = "KafkaServer"


class JaasFile:
    """The file, which is read once, when a listener needs it. `properties` are Java's, for variables in values."""

    def __init__(self, path: str, properties: Mapping[str, str]) -> None:
        self.path = path
        self._properties = properties

    def modules(self, listener_name: str) -> list[LoginModule] | None:
        """Return the login modules of a listener: its own section, else the common one; None if there is neither.

        Raises ConfigError if the file cannot be read.
        """
        own = self._sections.get(f"{listener_name.lower()}.{_SECTION}")
        return self._sections.get(_SECTION) if own is None else own

    @cached_property
    def _sections(self) -> Sections:
        try:
            data = file_bytes(self.path)
            check_encoding(data)
            return parse_jaas_file(data.decode("utf-8-sig", "replace"), self._properties)
        except JaasFileError as error:
            allowed = "sections of login modules: NAME { MODULE required KEY=VALUE; };"
            raise ConfigError(Problem(_PROPERTY, None, str(error), allowed, f"{self.path}:{error.line}")) from None
        except UnreadableText as error:
            raise ConfigError(Problem(_PROPERTY, None, error.reason, "", f"{self.path}:{error.line}")) from None
        except OSError as error:
            reason = error.strerror or str(error)
            raise ConfigError(Problem(_PROPERTY, self.path, reason, "", f"environment {VARIABLE}")) from None


def jaas_file(environ: Mapping[str, str]) -> JaasFile | None:
    """Return the file that the environment names, without reading it."""
    pairs = (word[2:].partition("=") for word in environ.get(VARIABLE, "").split() if word.startswith("-D"))
    properties = {name: value for name, _, value in pairs}
    path = properties.get(_PROPERTY, "").removeprefix("=").removeprefix("file:")  # == means in Java: this file only
    return JaasFile("/" + path.lstrip("/") if path.startswith("//") else path, properties) if path else None
