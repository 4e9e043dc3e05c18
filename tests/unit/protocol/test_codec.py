"""The generated decoders and encoders of small schemas, compared with bytes written by hand."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.error_codes import EncodeError, ProtocolError
from protocol.primitives import (
    boolean,
    bytestring,
    float64,
    int8,
    int16,
    int32,
    int64,
    records,
    string,
    uint16,
    uint32,
    uuid,
)
from protocol.schema import Array, Field, Message, StructType

UUID = bytes(range(16))
Point = StructType("Point", Field("x", int8), Field("y", int16, default=7))
Named = StructType("Named", Field("name", string), Field("more", string, "1+", default="d"))


def message(*fields: Field, flexible: str = "1+") -> Message:
    """A message with versions 0 (old encoding) and 1 (flexible)."""
    return Message("M", *fields, versions="0-1", flexible=flexible)


CASES: list[tuple[str, Field, Any, str, str]] = [
    ("bool", Field("f", boolean), True, "01", "01 00"),
    ("int8", Field("f", int8), -2, "fe", "fe 00"),
    ("int16", Field("f", int16), -2, "fffe", "fffe 00"),
    ("uint16", Field("f", uint16), 65535, "ffff", "ffff 00"),
    ("int32", Field("f", int32), 258, "00000102", "00000102 00"),
    ("uint32", Field("f", uint32), 2**32 - 1, "ffffffff", "ffffffff 00"),
    ("int64", Field("f", int64), -1, "ff" * 8, "ff" * 8 + "00"),
    ("float64", Field("f", float64), 1.5, "3ff8000000000000", "3ff8000000000000 00"),
    ("uuid", Field("f", uuid), UUID, UUID.hex(), UUID.hex() + "00"),
    ("string", Field("f", string), "é", "0002 c3a9", "03 c3a9 00"),
    ("empty string", Field("f", string), "", "0000", "01 00"),
    ("null string", Field("f", string, nullable="0+"), None, "ffff", "00 00"),
    ("nullable string", Field("f", string, nullable="0+"), "a", "0001 61", "02 61 00"),
    ("bytes", Field("f", bytestring), b"\1\2", "00000002 0102", "03 0102 00"),
    ("null bytes", Field("f", bytestring, nullable="0+"), None, "ffffffff", "00 00"),
    ("records", Field("f", records, nullable="0+"), b"\1\2", "00000002 0102", "03 0102 00"),
    ("null records", Field("f", records, nullable="0+"), None, "ffffffff", "00 00"),
    ("empty records", Field("f", records, nullable="0+"), b"", "00000000", "01 00"),
    ("int array", Field("f", Array(int16)), [1, -1], "00000002 0001 ffff", "03 0001 ffff 00"),
    ("empty array", Field("f", Array(int16)), [], "00000000", "01 00"),
    ("null array", Field("f", Array(int16), nullable="0+"), None, "ffffffff", "00 00"),
    ("bool array", Field("f", Array(boolean)), [True, False], "00000002 0100", "03 0100 00"),
    ("string array", Field("f", Array(string)), ["a", ""], "00000002 0001 61 0000", "03 02 61 01 00"),
    ("bytes array", Field("f", Array(bytestring)), [b"a"], "00000001 00000001 61", "02 02 61 00"),
    ("uuid array", Field("f", Array(uuid)), [UUID, UUID], "00000002" + 2 * UUID.hex(), "03" + 2 * UUID.hex() + "00"),
    ("struct", Field("f", Point), Point(x=1, y=2), "01 0002", "01 0002 00 00"),
    ("null struct", Field("f", Point, nullable="0+", default=None), None, "ff", "ff 00"),
    (
        "nullable struct",
        Field("f", Point, nullable="0+", default=None),
        Point(x=1, y=2),
        "01 01 0002",
        "01 01 0002 00 00",
    ),
    (
        "struct array",
        Field("f", Array(Point)),
        [Point(x=1), Point(x=2)],
        "00000002 01 0007 02 0007",
        "03 01 0007 00 02 0007 00 00",
    ),
    ("versioned", Field("f", Named), Named(name="a"), "0001 61", "02 61 02 64 00 00"),
    ("not flexible", Field("f", string, flexible=False), "a", "0001 61", "0001 61 00"),
]


@pytest.mark.parametrize(("field", "value", "old", "flexible"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_each_type_in_both_encodings(field: Field, value: Any, old: str, flexible: str):
    """One field alone: whole, truncated after each byte, and with extra bytes (rules 1 and 3)."""
    m = message(field)
    for version, expected in ((0, bytes.fromhex(old)), (1, bytes.fromhex(flexible))):
        assert m.encode(version, m(f=value)) == expected
        for buffer in (expected, bytearray(expected), memoryview(expected)):
            assert m.decode(version, buffer) == (m(f=value), len(expected))
        assert m.decode(version, b"xx" + expected + b"tail", 2) == (m(f=value), len(expected) + 2)
        for cut in range(len(expected)):
            with pytest.raises(ProtocolError):
                m.decode(version, expected[:cut])


def test_long_strings_have_lengths_of_several_bytes():
    """126 bytes is the longest compact length of one byte; 32767 the longest string."""
    m = message(Field("f", string), Field("g", int8))
    for size in (125, 126, 127, 128, 16382, 16383, 16384, 32767):
        value = m(f="a" * size, g=1)
        for version in (0, 1):
            encoded = m.encode(version, value)
            assert m.decode(version, encoded) == (value, len(encoded))


def test_decoded_records_are_views_but_bytes_are_not():
    """Records are never copied; all other values are independent of the buffer (rule 4)."""
    m = message(Field("b", bytestring), Field("r", records), Field("a", Array(uuid)))
    buffer = bytearray(m.encode(1, m(b=b"kept", r=b"seen", a=[UUID])))
    value, _ = m.decode(1, buffer)
    buffer[:] = bytes(len(buffer))

    assert (value.b, value.a) == (b"kept", [UUID])
    assert isinstance(value.r, memoryview)
    assert value.r == bytes(4)


class FileSlice:
    """Stands for bytes that only the network code can read."""

    def __len__(self) -> int:
        return 1000


def test_records_are_chunks_without_a_copy():
    """The chunks around them are bytes; any object with a length is accepted."""
    entry = StructType("Entry", Field("i", int8), Field("r", records, nullable="0+"), Field("z", int8))
    m = message(Field("entries", Array(entry)))
    part, view = FileSlice(), memoryview(b"ab")
    value = m(
        entries=[entry(i=1, r=part, z=2), entry(i=3, r=None, z=4), entry(i=5, r=b"", z=6), entry(i=7, r=view, z=8)]
    )

    old = m.encode_chunks(0, value)
    assert old[1] is part
    assert old[3] is view
    assert [bytes.fromhex(c) for c in ("0000000401000003e8", "0203ffffffff0405000000000607" + "00000002", "08")] == old[
        0::2
    ]
    flexible = m.encode_chunks(1, value)
    assert flexible[1] is part
    assert [bytes.fromhex(c) for c in ("0501e907", "020003000400050106000703", "080000")] == flexible[0::2]


def test_encode_joins_chunks_but_not_files():
    """`encode` needs bytes-like records."""
    m = message(Field("r", records))

    assert m.encode(0, m(r=memoryview(b"ab"))) == b"\0\0\0\2ab"
    with pytest.raises(TypeError):
        m.encode(0, m(r=FileSlice()))


Tagged = message(
    Field("n", int8),
    Field("text", string, "1+", nullable="1+", tag=0, default=None),
    Field("point", Point, "1+", tag=1),
    Field("names", Array(string), "1+", tag=2),
    Field("maybe", Point, "1+", nullable="1+", tag=3, default=None),
    Field("late", int32, "1+", tag=200, default=-1),
)


def test_tagged_fields_with_defaults_are_omitted():
    """A struct that equals the default need not be the same object."""
    assert Tagged.encode(1, Tagged(n=1, point=Point())) == b"\1\0"
    assert Tagged.decode(1, b"\1\0") == (Tagged(n=1), 2)


def test_tagged_fields_are_written_in_ascending_tags():
    """Tag, size, value; a nullable struct in a tag begins with the unsigned varint 1."""
    value = Tagged(n=1, text="a", point=Point(x=2), names=["b"], maybe=Point(x=3), late=5)
    encoded = bytes.fromhex("01 0500 02 026101 04 0200070002 03 02026203 05 0103000700c801 04 00000005")

    assert Tagged.encode(1, value) == encoded
    assert Tagged.decode(1, encoded) == (value, len(encoded))
    for cut in range(len(encoded)):
        with pytest.raises(ProtocolError):
            Tagged.decode(1, encoded[:cut])


def test_null_struct_in_a_tag_with_another_default():
    """It is written as a value of one byte, 0."""
    m = message(Field("f", Point, "1+", nullable="1+", tag=0))

    assert m.encode(1, m(f=None)) == bytes.fromhex("01 00 01 00")
    assert m.decode(1, bytes.fromhex("01 00 01 00"))[0].f is None
    assert m.encode(1, m()) == b"\0"


def test_unknown_tags_are_skipped():
    """In messages with and without known tags (rule 5)."""
    encoded = bytes.fromhex("01 0209 02 ffffc801 04 00000005")

    assert Tagged.decode(1, encoded) == (Tagged(n=1, late=5), len(encoded))
    m = message(Field("n", int8))
    assert m.decode(1, bytes.fromhex("01 01 09 02 ffff")) == (m(n=1), 6)


def test_many_tags_in_one_section():
    """More than 127, so the count has two bytes."""
    section = bytes.fromhex("018001") + b"\x09\x00" * 128

    assert Tagged.decode(1, section) == (Tagged(n=1), len(section))


@pytest.mark.parametrize("size", ["03", "05"])
def test_known_tagged_field_ends_with_its_value(size: str):
    """Kafka reads it so too."""
    data = bytes.fromhex(f"01 01 c801 {size} 00000005")
    assert Tagged.decode(1, data) == (Tagged(n=1, late=5), len(data))


MALFORMED = [
    ("null string", string, "ffff", "00 00"),
    ("null bytes", bytestring, "ffffffff", "00 00"),
    ("null array", Array(int8), "ffffffff", "00 00"),
    ("negative length", string, "fff0 00", "00 00"),
    ("array beyond the bytes", Array(int64), "00000002" + "00" * 15, "03" + "00" * 15),
    ("huge array of numbers", Array(int8), "7fffffff 00", "ffffffff0f 00"),
    ("huge array of strings", Array(string), "7fffffff 0000", "ffffffff0f 01"),
    ("huge array of structs", Array(Point), "7fffffff 000000", "ffffffff0f 00000000"),
    ("huge array of uuids", Array(uuid), "7fffffff" + "00" * 16, "ffffffff0f" + "00" * 16),
    ("huge bytes", bytestring, "7fffffff 00", "ffffffff0f 00"),
    ("varint overflow", string, "8000", "ffffffff7f 00"),
    ("too long a string", string, "8000" + "61" * 32768, "818002" + "61" * 32768 + "00"),
]


@pytest.mark.parametrize(("kind", "old", "flexible"), [c[1:] for c in MALFORMED], ids=[c[0] for c in MALFORMED])
def test_malformed_bytes_are_protocol_errors(kind: Any, old: str, flexible: str):
    """No memory is allocated for missing bytes (rules 1 and 2)."""
    m = message(Field("f", kind))
    for version, data in ((0, old), (1, flexible)):
        with pytest.raises(ProtocolError):
            m.decode(version, bytes.fromhex(data))


def test_length_with_superfluous_bytes_is_valid():
    """Kafka accepts such varints. 0 is null, 1 is empty."""
    m = message(Field("f", string, nullable="0+"), Field("next", int8))
    for size, expected in (("8000", None), ("8100", ""), ("8200 61", "a")):
        value, end = m.decode(1, bytes.fromhex(f"{size} 07 00"))
        assert (value.f, value.next) == (expected, 7)
        assert end == len(bytes.fromhex(size)) + 2
    with pytest.raises(ProtocolError, match="null"):
        message(Field("f", string)).decode(1, bytes.fromhex("8000 00"))


def test_any_negative_length_is_null_if_nullable():
    """Kafka reads it so too."""
    m = message(Field("f", string, nullable="0+"))

    assert m.decode(0, b"\xff\xf0")[0].f is None


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (string, None),
        (string, 5),
        (string, "a" * 32768),
        (int8, 200),
        (int8, "1"),
        (Array(int8), None),
        (Array(string), [None]),
        (bytestring, None),
        (Point, None),
        (uuid, 7),
    ],
)
def test_values_that_do_not_fit_are_encode_errors(kind: Any, value: Any):
    """No partial bytes are returned."""
    m = message(Field("f", kind))
    for version in (0, 1):
        with pytest.raises(EncodeError, match=r"M v|may not be None"):
            m.encode(version, m(f=value))


def test_missing_field_must_have_its_default_or_be_ignorable():
    """Kafka rejects such a message too (rule 5)."""
    m = message(
        Field("a", int8),
        Field("b", int8, "1+", default=-1),
        Field("c", int8, "1+", ignorable=True),
        Field("p", Point, "1+"),
    )

    assert m.encode(0, m(a=1, c=9)) == b"\1"
    assert m.encode(0, m(a=1, p=Point())) == b"\1"
    for given in ({"b": 0}, {"p": Point(x=1)}):
        with pytest.raises(EncodeError, match="may not be dropped"):
            m.encode(0, m(**given))


def test_missing_fields_decode_to_their_defaults():
    """Handlers need not check the version."""
    m = message(Field("a", int8), Field("b", Array(Named), "1+"), Field("c", string, "1+", default="x"))
    value, _ = m.decode(0, b"\1")

    assert (value.b, value.c) == ([], "x")


def test_codecs_are_compiled_once():
    """They are compiled on first use and kept."""
    m = message(Field("a", int8))

    assert m.decoder(0) is m.decoder(0)
    assert m.encoder(1) is m.encoder(1)
