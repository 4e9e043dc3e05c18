"""Images as records, and the rule that replaying them is enough."""

from __future__ import annotations

import copy

from hypothesis import given, settings
from hypothesis import strategies as st

from metadata.bulk_records import encode_records
from metadata.configs import alter_config
from metadata.create_partitions import create_partitions
from metadata.delete_topics import delete_topics
from metadata.elections import ElectionType, elect_leaders
from metadata.framing import UnknownRecord, decode_record, encode_record, new_record
from metadata.image import MetadataImage
from metadata.loading import MetadataLoader
from metadata.registration import leave, unfence_broker
from metadata.replay import replay_all
from metadata.snapshot import image_records
from protocol.messages.cluster_metadata import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    DelegationTokenRecord,
    UserScramCredentialRecord,
)
from protocol.messages.cluster_metadata.configs import EntityData
from tests.support.images import cluster, config_changes, decide_topics, more_partitions, new_topics, references
from tests.support.metadata_log import CLEAN_SHUTDOWN, stored_records
from tests.support.scale import scaled


def reloaded(image: MetadataImage) -> MetadataImage:
    """Return the image after encoding and replaying the records of its snapshot."""
    loader = MetadataLoader()
    for record in image_records(image):
        loader.feed(decode_record(encode_record(record)))
    return loader.image


def test_snapshot_of_a_real_cluster_gives_the_same_image():
    """Features, registrations, topics, configurations and producer ids of the recorded cluster."""
    loader = MetadataLoader()
    for record in stored_records(CLEAN_SHUTDOWN / "__cluster_metadata-0" / "00000000000000000000.log"):
        loader.feed(record)

    assert reloaded(loader.image) == loader.image


def test_metadata_version_comes_first():
    """A reader needs it first."""
    record = next(iter(image_records(cluster())))

    assert record.value.name == "metadata.version"  # type: ignore[union-attr]


def test_snapshot_has_unknown_records():
    """They are the only state of a later release."""
    image = cluster()
    image.unknown_records.append(UnknownRecord(200, 1, b"body"))

    assert reloaded(image) == image


def test_snapshot_has_acls_secrets_tokens_and_quotas():
    """The image keeps them for brokers, although no decision here uses them."""
    image = cluster()
    level = image.metadata_version
    entity = [
        EntityData(entity_type="user", entity_name="alice"),
        EntityData(entity_type="client-id", entity_name=None),
    ]
    replay_all(
        image,
        [
            new_record(
                level,
                DelegationTokenRecord,
                owner="User:alice",
                requester="User:bob",
                renewers=["User:carol"],
                issue_timestamp=1,
                max_timestamp=2,
                expiration_timestamp=3,
                token_id="token",
            ),
            new_record(
                level,
                UserScramCredentialRecord,
                name="alice",
                mechanism=1,
                salt=b"salt",
                stored_key=b"stored",
                server_key=b"server",
                iterations=4096,
            ),
            new_record(
                level,
                AccessControlEntryRecord,
                id=b"an id of an acl.",
                resource_type=2,
                resource_name="orders",
                pattern_type=3,
                principal="User:alice",
                host="*",
                operation=3,
                permission_type=3,
            ),
            new_record(level, ClientQuotaRecord, entity=entity, key="producer_byte_rate", value=1e6),
        ],
    )

    assert (len(image.delegation_tokens), len(image.scram_credentials), len(image.acls)) == (1, 1, 1)
    assert reloaded(image) == image


steps = st.one_of(
    st.tuples(st.just("create"), new_topics),
    st.tuples(st.just("partitions"), more_partitions),
    st.tuples(st.just("delete"), references),
    st.tuples(st.just("config"), config_changes),
    st.tuples(st.just("restart"), st.booleans()),
)


def decide(image: MetadataImage, kind: str, wanted):
    """Return the records of one step."""
    if kind == "create":
        return decide_topics(image, *wanted).records
    if kind == "partitions":
        return create_partitions(image, wanted, random_below=lambda _: 0).records
    if kind == "delete":
        return delete_topics(image, wanted).records
    if kind == "config":
        return alter_config(image, 2, "orders", wanted) if image.topic("orders") else []
    if wanted:
        return leave(image, 1)
    return [*elect_leaders(image, ElectionType.PREFERRED, None).records, *unfence_broker(image, 1)]


@settings(max_examples=scaled(60), deadline=None)
@given(st.lists(steps, max_size=8))
def test_live_image_equals_the_replayed_one(script):
    """Deciding changes nothing; the log alone gives the same image, and so does a snapshot."""
    image = cluster()
    start = copy.deepcopy(image)
    written: list[bytes] = []
    for kind, wanted in script:
        before = copy.deepcopy(image)
        records = decide(image, kind, wanted)
        assert image == before
        written.extend(encode_records(records))
        replay_all(image, records)
    loader = MetadataLoader(start)
    for data in written:
        loader.feed_value(data)

    assert loader.image == image
    assert reloaded(image) == image
