"""Names in certificates, and the users that mapping rules make of them: the same as Kafka's classes in a JVM."""

from __future__ import annotations

import base64
import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.name import _ASN1Type as Kind
from cryptography.x509.oid import NameOID, ObjectIdentifier

from security.alternative_names import alternative_names
from security.distinguished_name import distinguished_name
from security.principal_rules import PrincipalRules, RulesError
from tests.support.java import JavaRunner

#: replaces bytes that are no text
PLACE = "20304050"
BYTES = [b"\xfc\xdf\x80\xf0\x9f\x98ab", b"\xc3\xbcabcdef", b"\xc0\x80abcdef", b"\xf8\x88\x80\x80\x80\xf4\x90a"]
TEXTS = [
    *("plain", "", " ", "  two before, two behind  ", "\r\n in lines \n\r", "\t tab\t", "#hash", "a#b", " #"),
    *('all of ,=+<>#;"\\', "nul\0in", "\x01\x7f", "Grüße 日本 😀", "\u2028\ufeff", "*.example.com", "a/b@c:d?e!f%g&h"),
    *("\\", "\\ ", " \\", "z" * 64, "a \n", "a \r"),
]
OWN = [
    ObjectIdentifier(each) for each in ("1.2.3", "0.9.2342.19200300.100.1.3", "2.999.3", "2.5.4.300", "1.39.128.16384")
]
NAMES = [
    "CN=kafka1,OU=SME,O=Apache,C=DE",
    "CN=kafka1",
    "",
    "O=b+CN=a,UID=\\#x\\ ",
    "1.2.840.113549.1.9.1=#160161,CN=Grüße",
    "CN=two\nlines,OU=x",
    "CN=$1\\\\2,OU=x",
    "CN=a\rb\u2028c,OU=x",
    "CN=abc&],OU=x",
]
#: the end of a pattern that matches the first part's name
REPLACEMENTS = [
    *("$1/", "$1/U,DEFAULT", "$1 $9/", "$0/", "$10/", "$01/", "$95/", "$09/", "$1$1/", "$/", "${1}/", "$1@$2/L"),
    *("\\$1/", "\\\\$1/", "a\\/b\\n/", "a\\/", "/", "a,b/", "a\nb/", "$1/,RULE:.*,CN=(\\w+).*/$1/,DEFAULT"),
]
#: rules, as combinations of patterns, replacements and ends
RULES = [
    *("", "DEFAULT", " DEFAULT ", "\nDEFAULT", "default", "DEFAULT,DEFAULT", "DEFAULT DEFAULT", ",", "DEFAULT,"),
    *(",DEFAULT", "x,DEFAULT", "DEFAULT,x", "DEFAULT ,DEFAULT", "DEFAULT RULE:a/b/"),
    *(f"RULE:^CN=(.*?),.*$/{each}" for each in REPLACEMENTS),
    *("RULE:^CN=(.*?),OU=(.*?),.*$/$1@$2/L", "RULE:^CN=(.*?)(,.*)?$/$1$2/", "RULE:^CN=(a)?(.*?),.*$/$1-$2/"),
    *("RULE:^CN=other,.*$/x/,RULE:^.*O=(.*?),.*$/$1/, DEFAULT", "RULE:^CN=.*$/$1/", "RULE:CN=kafka1/x/,DEFAULT"),
    *("RULE:CN=(.*?)/$1/", "RULE:CN=(.*)/<$1>/", "RULE:(.*?)/<$1>/", "RULE:.*/x/", "RULE:(.*)/$1./L"),
    *("RULE:^CN=(?<n>.*?),.*$/${n}/", "RULE:^CN=(?<n>.*?),.*$/${m}/", "RULE:^CN=(?<n>.*?)(?<=1),.*$/${n}/,DEFAULT"),
    *("RULE:^CN=(\\w+),.*$/$1/", "RULE:^CN=(\\d+),.*$/$1/,DEFAULT", "RULE:(?i)^cn=(K.*),.*$/$1/,DEFAULT"),
    *("RULE:^CN=(\\s?)(.*)$/$2$1/U", "RULE:^CN=a\\,b/x/,DEFAULT", "RULE:,/x/,DEFAULT", "RULE:\\(?<n>/x/"),
    *("RULE:", "RULE:a", "RULE:a/b", "RULE:a/b/X", "RULE:a/b/LU", "RULE:a/b/L,x", "RULE:a/b/ L", "rule:a/b/"),
    *("RULE:^CN=(.*/$1/", "RULE:[/x/", "RULE://x/", "RULE:/x/", "RULE:a/b/ RULE:c/d/", "RULE:a/b/RULE:c/d/"),
    *("RULE:CN=([ab.]+[^&]*).*/$1/,DEFAULT", "RULE:CN=(\\..*|\\w+&?).*/$1/,DEFAULT"),
    *("RULE:a/b/,,DEFAULT", "RULE:a/b/, ,DEFAULT", "RULE:a/b/ ,DEFAULT", "RULE:a/b/,\n DEFAULT"),
]


def issued(name: x509.Name, replaced: bytes = PLACE.encode(), others: Sequence[x509.GeneralName] = ()) -> bytes:
    """Return a certificate with that subject and other names, in DER; its issuer does not matter."""
    key, now = generate_private_key(SECP256R1()), datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=1))
    )
    if others:
        builder = builder.add_extension(x509.KeyUsage(*[True] * 9), critical=True)
        builder = builder.add_extension(x509.SubjectAlternativeName(others), critical=False)
    certificate = builder.sign(key, SHA256())
    return certificate.public_bytes(Encoding.DER).replace(PLACE.encode(), replaced)


def attribute(number: ObjectIdentifier, text: str, kind: Kind | None = None) -> x509.NameAttribute:
    """Return a name attribute, also one that no authority should sign."""
    return x509.NameAttribute(number, text, kind, _validate=False)


def certificates() -> Iterator[bytes]:
    known = [value for name, value in sorted(vars(NameOID).items()) if isinstance(value, ObjectIdentifier)]
    for number in [*known, *OWN]:
        yield issued(x509.Name([attribute(number, "DE")]))
    for text in TEXTS:
        yield issued(x509.Name([attribute(NameOID.COMMON_NAME, text)]))
    for replaced in BYTES:
        yield issued(x509.Name([attribute(NameOID.COMMON_NAME, PLACE)]), replaced)
    for kind in Kind:
        if kind in (Kind.UTCTime, Kind.GeneralizedTime, Kind.OctetString, Kind.BitString):
            continue
        if kind is not Kind.BMPString:  # up to Java 21 neither they nor bytes beyond ASCII in others were read right
            yield issued(x509.Name([attribute(NameOID.COMMON_NAME, PLACE, kind)]), PLACE.encode())
        yield issued(x509.Name([attribute(NameOID.EMAIL_ADDRESS, "1", kind)]))
    for size in (127, 128, 255, 256, 70_000):
        yield issued(x509.Name([attribute(NameOID.EMAIL_ADDRESS, "a" * size), attribute(NameOID.COMMON_NAME, "b")]))
    whole = [attribute(number, "DE") for number in known]
    yield issued(x509.Name(whole))
    yield issued(
        x509.Name(
            [x509.RelativeDistinguishedName(whole), *(x509.RelativeDistinguishedName([each]) for each in whole[:3])]
        )
    )
    yield issued(x509.Name([]))


def asked(java: JavaRunner, questions: Sequence[Mapping[str, str]]) -> list[str]:
    done = java.run("UserNames", stdin="".join(json.dumps(each) + "\n" for each in questions))
    assert done.exit_code == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_names_are_those_of_java(java: JavaRunner) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # cryptography warns about such names
        made = list(certificates())
    expected = asked(java, [{"certificate": base64.b64encode(each).decode()} for each in made])
    assert [distinguished_name(each) for each in made] == expected


OTHERS: list[x509.GeneralName] = [
    *(x509.DNSName(each) for each in ("localhost", "LocalHost", "*.example.com", "a" * 63)),
    *(x509.RFC822Name(each) for each in ("someone@example.com", "Some.One@Example.com")),
    *(x509.UniformResourceIdentifier(each) for each in ("https://example.com/A?b=c#d", "spiffe://example.com/broker")),
    *(
        x509.IPAddress(ip_address(each))
        for each in ("127.0.0.1", "0.0.0.0", "::1", "2001:db8::ABCD:0:1", "::ffff:1.2.3.4")
    ),
    *(x509.DirectoryName(x509.Name.from_rfc4514_string(each)) for each in ("CN=kafka1,OU=a\\,b+O=c,C=DE", "1.2.3=x")),
    *(x509.RegisteredID(each) for each in OWN),
]
NAME = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a")])


def test_alternative_names_are_those_of_java(java: JavaRunner) -> None:
    """Each alone, and all of them. For kinds without a text form each Java version returns other bytes."""
    made = [issued(NAME, others=each) for each in ((), *((each,) for each in OTHERS), OTHERS, OTHERS[:3])]
    expected = asked(java, [{"certificate": base64.b64encode(each).decode(), "others": ""} for each in made])
    ours = ["\n".join(sorted(f"{kind} {name}" for kind, name in alternative_names(each))) for each in made]
    assert ours == expected


def user_of(rules: str, name: str) -> str:
    try:
        made = PrincipalRules(rules)
    except RulesError:
        return "bad rules"
    try:
        return made.user_of(name)
    except RulesError:
        return "no user"


def test_users_are_those_of_kafka(java: JavaRunner) -> None:
    questions = [{"rules": rules, "name": name} for rules in RULES for name in NAMES]
    expected = asked(java, questions)
    ours = [user_of(**each) for each in questions]
    assert [each for each in zip(questions, ours, expected, strict=True) if each[1] != each[2]] == []
    assert {"bad rules", "no user"} < set(ours)
