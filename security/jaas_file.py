"""A file of login modules in sections, as Java reads the file that `java.security.auth.login.config` names.

    KafkaServer {
        org.apache.kafka.common.security.plain.PlainLoginModule required
            user_alice="secret";
        org.apache.kafka.common.security.scram.ScramLoginModule required;
    };
    clients.KafkaServer { ... };      the section of one listener, by its name in lower case

In values, `${NAME}` stands for a Java system property.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from security.jaas import FLAGS, JaasError, LoginModule, Token, tokens

Sections = dict[str, list[LoginModule]]

_LINE_END = re.compile(r"\r\n|\r|\n")
_PROPERTY = re.compile(r"\$\{\{.*?\}\}|\$\{(.*?)\}", re.DOTALL)
_END = Token(None, "")
#: What Java reads in place of bytes that are not UTF-8, which comments may contain.
_NOT_UTF8 = "\ufffd"


class JaasFileError(JaasError):
    """An error in the file, with its line number, counted from 1."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


def parse_jaas_file(text: str, properties: Mapping[str, str]) -> Sections:
    """Return the login modules by section. Raises JaasFileError."""
    return _Reader(text, properties).sections()


class _Reader:
    """Reads the tokens, with one token of lookahead."""

    def __init__(self, text: str, properties: Mapping[str, str]) -> None:
        self._text = text
        self._properties = properties
        self._tokens: Iterator[Token] = tokens(text, "*")
        self._ahead = next(self._tokens, _END)

    def sections(self) -> Sections:
        found: Sections = {}
        while self._ahead is not _END:
            line = self._line
            name = self._word("the name of a section")
            self._sign("{")
            modules = []
            while self._ahead.sign != "}":
                modules.append(self._module())
            self._sign("}")
            self._sign(";")
            if name in found:
                raise JaasFileError(f"Can not specify multiple entries for {name}", line)
            found[name] = modules
        return found

    def _module(self) -> LoginModule:
        name = self._word("module class name")
        line = self._line
        flag = self._word("controlFlag").upper()
        if flag not in FLAGS:
            raise JaasFileError(f"Invalid control flag, {flag}", line)
        options: dict[str, str] = {}
        while self._ahead.sign != ";":
            key = self._word("option key")
            self._sign("=")
            options[key] = self._expanded(self._word("option value"))
        self._sign(";")
        return LoginModule(name, flag, options)

    def _word(self, what: str) -> str:
        token = self._ahead
        if token.text is None or token.sign == "'":
            raise self._unexpected(what)
        if _NOT_UTF8 in token.text:
            raise JaasFileError(f"{what} is not UTF-8", self._line)
        self._next()
        return token.text

    def _sign(self, sign: str) -> None:
        if self._ahead.sign != sign:
            raise self._unexpected(sign)
        self._next()

    def _next(self) -> None:
        self._ahead = next(self._tokens, _END)

    def _expanded(self, value: str) -> str:
        def stands_for(match: re.Match[str]) -> str:
            name = match[1]
            if name is None:  # ${{...}} is not expanded
                return match[0]
            if name == "/":
                return "/"
            if name not in self._properties:
                raise JaasFileError(f"unable to expand property {name}", self._line)
            return self._properties[name]

        expanded = _PROPERTY.sub(stands_for, value)
        if value and not expanded:
            raise JaasFileError("a system property expanded to empty value", self._line)
        return expanded

    def _unexpected(self, what: str) -> JaasFileError:
        if self._ahead is _END:
            return JaasFileError(f"expected [{what}], read [end of file]", self._line)
        found = self._ahead.sign if self._ahead.text is None else "a word"  # it may be a secret
        return JaasFileError(f"expected [{what}], found [{found}]", self._line)

    @property
    def _line(self) -> int:
        """The line of the next token."""
        at = len(self._text.rstrip()) if self._ahead is _END else self._ahead.start
        return len(_LINE_END.findall(self._text, 0, at)) + 1
