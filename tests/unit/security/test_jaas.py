"""Login modules, as Apache Kafka reads them."""

from __future__ import annotations

import pytest

from security.jaas import JaasError, login_module, parse_jaas

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (f"{PLAIN} required;", {}),
        (f'{PLAIN} required user_alice="secret" user_bob=other;', {"user_alice": "secret", "user_bob": "other"}),
        (f"{PLAIN} Required\n user_a='x;y=\"z\"' ;", {"user_a": 'x;y="z"'}),
        (f'{PLAIN} required /* why */ a="1" // b="2"\n c="3";', {"a": "1", "c": "3"}),
        (f'{PLAIN} required a="\\"\\\\\\n\\101";', {"a": '"\\\nA'}),
        (f'{PLAIN} required user_émile-le.1$="ü";', {"user_émile-le.1$": "ü"}),
        (f'{PLAIN} required a="" b="2";', {"a": "", "b": "2"}),
        (f"{PLAIN} required a=x/y\n b=z;", {"a": "x", "b": "z"}),  # a slash begins a comment
    ],
)
def test_options(text: str, options: dict[str, str]) -> None:
    module = login_module(text)
    assert (module.name, module.flag, module.options) == (PLAIN, "REQUIRED", options)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Login module not specified in JAAS config"),
        (PLAIN, "Login module control flag not specified in JAAS config"),
        (f"{PLAIN} ;", "Login module control flag is not available in the JAAS config"),
        (f"{PLAIN} maybe;", "Invalid login module control flag 'maybe' in JAAS config"),
        (f"{PLAIN} required a=1;", "Value not specified for option 1 in JAAS config"),
        (f"{PLAIN} required a;", "Value not specified for option 1 in JAAS config"),
        (f"{PLAIN} required password=two words;", "Value not specified for option 2 in JAAS config"),
        (f'{PLAIN} required a="1"', "JAAS config entry not terminated by semi-colon"),
        (f"{PLAIN} required; {PLAIN} required;", "JAAS config property contains 2 login modules, should be 1 module"),
    ],
)
def test_rejected_syntax(text: str, message: str) -> None:
    """In Kafka's words."""
    with pytest.raises(JaasError, match="^" + message.replace("'", ".") + "$"):
        login_module(text)


def test_several_modules_and_no_secret_in_print() -> None:
    modules = parse_jaas(f'{PLAIN} required user_a="hidden"; Other optional;')
    assert [module.flag for module in modules] == ["REQUIRED", "OPTIONAL"]
    assert "hidden" not in repr(modules)
