"""From certificates' names to users, as in Kafka."""

from __future__ import annotations

import pytest

from security.principal_rules import PrincipalRules, RulesError

NAME = "CN=kafka1,OU=SME,O=Apache,C=DE"


@pytest.mark.parametrize(
    ("rules", "user"),
    [
        ("DEFAULT", NAME),
        (" , DEFAULT ,", NAME),
        ("RULE:^CN=(.*?),.*$/$1/", "kafka1"),
        ("RULE:^CN=(.*?),OU=(.*?),.*$/$1@$2/L", "kafka1@sme"),
        ("RULE:^CN=(.*?),.*$/$1/U,DEFAULT", "KAFKA1"),
        ("RULE:^CN=other,.*$/x/,RULE:^.*O=(.*?),.*$/$1/, DEFAULT", "Apache"),
        ("RULE:^CN=other$/x/, DEFAULT", NAME),
        ("RULE:CN=kafka1/x/,DEFAULT", NAME),  # the whole name has to match
        (r"RULE:^CN=(.*?),.*$/$1 $9/", "kafka1 $9"),
        (r"RULE:^CN=(.*?),.*$/$10$01/", "kafka10kafka1"),
        (r"RULE:^CN=(?<user>.*?),.*$/${user}\$1/", "kafka1$1"),
        (r"RULE:CN=|,?OU=|[A-Z]{3}|,.*/x/,RULE:.*/x/", "xx"),  # the end of the name matches, too
    ],
)
def test_first_matching_rule_counts(rules: str, user: str) -> None:
    assert PrincipalRules(rules).user_of(NAME) == user


@pytest.mark.parametrize("rules", ["", ",", "RULE:^CN=other$/x/"])
def test_no_rule_matches(rules: str) -> None:
    with pytest.raises(RulesError, match="No rules apply to"):
        PrincipalRules(rules).user_of(NAME)


@pytest.mark.parametrize("replacement", ["$1", "${user}", "$", "$x", "a\\"])
def test_invalid_replacements(replacement: str) -> None:
    """References to missing groups. As in Kafka, the error appears when a client connects."""
    with pytest.raises(RulesError, match=r"Invalid (replacement|rule)"):
        PrincipalRules(f"RULE:.*/{replacement}/").user_of(NAME)


@pytest.mark.parametrize(
    "rules", ["default", "DEFAULT\nDEFAULT", "RULE:", "RULE:^CN=(.*/$1/", "RULE:a/b/X", "DEFAULT RULE:a/b/"]
)
def test_invalid_rules(rules: str) -> None:
    with pytest.raises(RulesError, match="Invalid rule"):
        PrincipalRules(rules)
