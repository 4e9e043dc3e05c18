"""Declarations and their values."""

from __future__ import annotations

import copy

import pytest

from protocol.error_codes import ProtocolError, UnsupportedVersion
from protocol.messages.controlled_shutdown import CONTROLLED_SHUTDOWN
from protocol.primitives import ZERO_UUID, boolean, bytestring, float64, int16, int32, records, string, uuid
from protocol.registry import API_BY_KEY
from protocol.schema import Api, Array, Field, Message, StructType

Leader = StructType("Leader", Field("id", int32, default=-1), Field("epoch", int32, default=-1))
Holder = StructType("Holder", Field("items", Array(int32)), Field("leader", Leader))
Everything = StructType(
    "Everything",
    Field("number", int16),
    Field("flag", boolean),
    Field("ratio", float64),
    Field("id", uuid),
    Field("text", string),
    Field("data", bytestring),
    Field("batches", records, nullable="0+"),
    Field("names", Array(string)),
    Field("nothing", string, nullable="0+", default=None),
    Field("leader", Leader),
    Field("holder", Holder),
)


def test_omitted_fields_have_their_defaults():
    """The zero value of the type, unless the schema has another default."""
    value = Everything()

    assert (value.number, value.flag, value.ratio, value.id) == (0, False, 0.0, ZERO_UUID)
    assert (value.text, value.data, value.batches, value.names, value.nothing) == ("", b"", None, [], None)
    assert value.leader == Leader(id=-1, epoch=-1)
    assert value.holder == Holder(items=[], leader=Leader())


def test_lists_are_not_shared_between_values():
    """Each value has its own lists, also inside default structs."""
    first, second = Everything(), Everything()
    first.names.append("a")
    first.holder.items.append(1)

    assert (second.names, second.holder.items) == ([], [])


def test_default_structs_are_shared_and_reject_changes():
    """A mistaken assignment must not change the default for all (rule 6)."""
    value = Everything()

    assert value.leader is Everything().leader
    with pytest.raises(AttributeError, match="assign a new one"):
        value.leader.id = 5
    value.leader = Leader(id=5)
    assert Everything().leader.id == -1


def test_new_is_calling():
    """`new` is for hot paths and does the same."""
    assert Leader.new(id=1) == Leader(id=1)


def test_a_field_may_be_called_value():
    """Configuration records have such fields."""
    entry = StructType("Entry", Field("name", string), Field("value", string, nullable="0+"), Field("make", int16))

    assert (entry(value="v").value, entry(value=None).value, entry().value, entry(make=3).make) == ("v", None, "", 3)


def test_unknown_fields_are_rejected():
    """In construction and in assignment."""
    with pytest.raises(TypeError, match="idd"):
        Leader(idd=1)
    with pytest.raises(AttributeError):
        Leader().idd = 1
    with pytest.raises(AttributeError, match="no attribute"):
        Leader.nothing  # noqa: B018


def test_values_compare_by_fields_and_copy():
    """Equal in all fields and of one struct type; not hashable, because they are mutable."""
    value = Leader(id=1, epoch=2)

    assert value == copy.copy(value)
    assert value != Leader(id=1)
    assert value != Holder()
    assert value != 1
    with pytest.raises(TypeError):
        hash(value)


def test_repr_shows_the_fields():
    """In the order of the schema."""
    assert repr(Leader(id=1)) == "Leader(id=1, epoch=-1)"
    assert repr(Holder) == "Holder"
    assert repr(Field("items", Array(int32), "1-2")) == "Field('items', []int32, 1-2)"


def test_values_know_their_struct():
    """`struct_type` refers to the declaration."""
    assert Leader().struct_type is Leader


EXAMPLE = Api(key=99, name="Example", versions="0-3", current="1-2", flexible="2+", request=[], response=[])


def test_unsupported_versions_are_rejected():
    """A version without a schema is an error of the caller."""
    message = Message("M", Field("a", int16), versions="1-2")

    for call in (lambda: message.decode(0, b"\0\0"), lambda: message.encode(3, message())):
        with pytest.raises(UnsupportedVersion, match="M has versions 1-2"):
            call()
    assert issubclass(UnsupportedVersion, ProtocolError)


def test_tagged_field_in_a_version_without_tags_is_rejected():
    """An error in a declaration appears at the first use."""
    message = Message("M", Field("a", int16, tag=0), versions="0", flexible="none")

    with pytest.raises(TypeError, match="not flexible"):
        message.encode(0, message())


def test_header_versions_follow_from_flexible_versions():
    """2 and 1 in flexible versions, else 1 and 0 (KIP-482)."""
    assert [EXAMPLE.request_header_version(v) for v in (0, 1, 2, 3)] == [1, 1, 2, 2]
    assert [EXAMPLE.response_header_version(v) for v in (0, 1, 2, 3)] == [0, 0, 1, 1]


def test_header_versions_of_the_exceptions():
    """ApiVersions always has response header 0 (KIP-511); ControlledShutdown v0 has no client id."""
    assert {API_BY_KEY[18].response_header_version(v) for v in range(5)} == {0}
    assert API_BY_KEY[18].request_header_version(3) == 2
    assert [CONTROLLED_SHUTDOWN.request_header_version(v) for v in (0, 1, 3)] == [0, 1, 2]


def test_api_repr_and_ranges():
    """Described and supported versions are two ranges."""
    assert repr(EXAMPLE) == "Api(99, 'Example', versions=0-3)"
    assert list(EXAMPLE.current) == [1, 2]
    assert EXAMPLE.listeners == ("broker",)
