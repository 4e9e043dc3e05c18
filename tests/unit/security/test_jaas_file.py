"""Files with sections of login modules, as Java reads them."""

from __future__ import annotations

import re

import pytest

from security.jaas import LoginModule
from security.jaas_file import JaasFileError, parse_jaas_file

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


def test_sections_with_several_modules() -> None:
    """Comments are ignored, flags may be in any case, and sections of listeners and clients are separate."""
    text = f"""
        // for all listeners
        KafkaServer {{
            {SCRAM} Required
            username="admin" password="it's";
            {PLAIN} required user_a="1"
            user_b=two;
        }};
        /* of one
           listener */
        clients.KafkaServer {{ {PLAIN} optional; }};
        Client {{ }};
    """
    assert parse_jaas_file(text, {}) == {
        "KafkaServer": [
            LoginModule(SCRAM, "REQUIRED", {"username": "admin", "password": "it's"}),
            LoginModule(PLAIN, "REQUIRED", {"user_a": "1", "user_b": "two"}),
        ],
        "clients.KafkaServer": [LoginModule(PLAIN, "OPTIONAL", {})],
        "Client": [],
    }
    assert parse_jaas_file("// nothing", {}) == {}


def test_a_word_may_have_an_asterisk() -> None:
    """As in names of Kerberos principals."""
    ((module,),) = parse_jaas_file("KafkaServer { M required principal=*; };", {}).values()
    assert module.options == {"principal": "*"}


def test_system_properties_in_values() -> None:
    text = 'S { M required a="${pass}-${/}" b="${{pass}}" c="$x"; };'
    ((module,),) = parse_jaas_file(text, {"pass": "word"}).values()
    assert module.options == {"a": "word-/", "b": "${{pass}}", "c": "$x"}


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("KafkaServer {\n M required", 2, "expected [option key], read [end of file]"),
        ("KafkaServer {\n M required;\n}\n", 3, "expected [;], read [end of file]"),
        ("KafkaServer {\n M required;\n}\nClient { };", 4, "expected [;], found [a word]"),
        ("KafkaServer\n M required;\n", 2, "expected [{], found [a word]"),
        ('KafkaServer {\n M required\n a="1"\n b=2;\n};', 4, "expected [option value], found [2]"),
        ("KafkaServer {\n M required\n a='hidden';\n};", 3, "expected [option value], found [a word]"),
        ('KafkaServer {\n M required\n a="1", b="2";\n};', 3, "expected [option key], found [,]"),
        ("KafkaServer {\n M maybe;\n};", 2, "Invalid control flag, MAYBE"),
        ("S { };\nS { };", 2, "Can not specify multiple entries for S"),
        ("# a comment\nS { };", 1, "expected [the name of a section], found [#]"),
        ('S {\n M required a="${nobody}"; };', 2, "unable to expand property nobody"),
        ('S {\n M required a="${none}"; };', 2, "a system property expanded to empty value"),
    ],
)
def test_errors_have_their_line(text: str, line: int, message: str) -> None:
    """They never quote text that may be a secret."""
    with pytest.raises(JaasFileError, match=f"^{re.escape(message)}$") as refused:
        parse_jaas_file(text, {"none": ""})
    assert refused.value.line == line
