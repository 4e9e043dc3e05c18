"""StreamsGroupTopologyDescriptionUpdate (key 93): store the description of a streams group's topology (KIP-1331)."""

from protocol.primitives import int8, int16, int32, string
from protocol.schema import Api, Array, Field, StructType

TopologyDescriptionNode = StructType(
    "TopologyDescriptionNode",
    Field("name", string),
    Field("node_type", int8),
    Field("source_topics", Array(string)),
    Field("sink_topic", string, nullable="0+", default=None),
    Field("stores", Array(string)),
    Field("successors", Array(string)),
)
TopologyDescriptionSubtopology = StructType(
    "TopologyDescriptionSubtopology",
    Field("subtopology_id", string),
    Field("nodes", Array(TopologyDescriptionNode)),
)
TopologyDescriptionGlobalStore = StructType(
    "TopologyDescriptionGlobalStore",
    Field("source", TopologyDescriptionNode),
    Field("processor", TopologyDescriptionNode),
)
TopologyDescription = StructType(
    "TopologyDescription",
    Field("subtopologies", Array(TopologyDescriptionSubtopology)),
    Field("global_stores", Array(TopologyDescriptionGlobalStore)),
)

STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE = Api(
    key=93,
    name="StreamsGroupTopologyDescriptionUpdate",
    versions="0",
    flexible="0+",
    request=[
        Field("group_id", string),
        Field("member_id", string),
        Field("topology_epoch", int32),
        Field("topology_description", TopologyDescription),
    ],
    response=[
        Field("throttle_time_ms", int32),
        Field("error_code", int16),
        Field("error_message", string, nullable="0+", default=None),
    ],
)
