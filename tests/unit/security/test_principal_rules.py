"""From certificates' names to users, as Kafka does it."""

from __future__ import annotations

import pytest

from security.distinguished_name import distinguished_name
from security.principal_rules import PrincipalRules, RulesError

NAME = "CN=kafka1,OU=SME,O=Apache,C=DE"


@pytest.mark.parametrize(
    ("rules", "user"),
    [
        ("", NAME),
        ("DEFAULT", NAME),
        ("RULE:^CN=(.*?),.*$/$1/", "kafka1"),
        ("RULE:^CN=(.*?),OU=(.*?),.*$/$1@$2/L", "kafka1@sme"),
        ("RULE:^CN=(.*?),.*$/$1/U,DEFAULT", "KAFKA1"),
        ("RULE:^CN=other,.*$/x/,RULE:^.*O=(.*?),.*$/$1/, DEFAULT", "Apache"),
        ("RULE:^CN=other$/x/, DEFAULT", NAME),
        ("RULE:CN=kafka1/x/,DEFAULT", NAME),  # the whole name has to fit
        (r"RULE:^CN=(.*?),.*$/$1 $9/", "kafka1 $9"),
    ],
)
def test_first_that_fits(rules: str, user: str) -> None:
    assert PrincipalRules(rules).user_of(NAME) == user


def test_none_fits() -> None:
    with pytest.raises(RulesError, match="No rules apply to"):
        PrincipalRules("RULE:^CN=other$/x/").user_of(NAME)


@pytest.mark.parametrize("rules", ["default", "RULE:", "RULE:^CN=(.*/$1/", "RULE:a/b/X", "DEFAULT RULE:a/b/"])
def test_not_read(rules: str) -> None:
    with pytest.raises(RulesError, match="Invalid rule"):
        PrincipalRules(rules)


def test_names_as_java_writes_them() -> None:
    subject = (
        (("countryName", "DE"),),
        (("organizationName", "Smith, Jones + Co"),),
        (("commonName", "alice"), ("userId", "a1")),
        (("emailAddress", "a@b.c"),),
    )
    assert distinguished_name(subject) == (
        "1.2.840.113549.1.9.1=#16056140622e63,CN=alice+UID=a1,O=Smith\\, Jones \\+ Co,C=DE"
    )
    assert distinguished_name(((("commonName", "#x "),),)) == "CN=\\#x\\ "
