"""All metrics. Each is a constant, which the sources of samples name; `METRICS` has them in the order of this file."""

from __future__ import annotations

from broker.observability.metrics.metric import (
    Kind,
    Metric,
    attribute,
    kafka,
    own,
)

_TOPIC, _PARTITION, _GROUP = ("topic",), ("topic", "partition"), ("consumergroup",)

# fmt: off
# -- traffic -----------------------------------------------------------------------------------------------------------
MESSAGES_IN = kafka("server", "BrokerTopicMetrics", "MessagesInPerSec", _TOPIC, "Records appended.")
BYTES_IN = kafka("server", "BrokerTopicMetrics", "BytesInPerSec", _TOPIC, "Bytes of records appended.")
BYTES_OUT = kafka("server", "BrokerTopicMetrics", "BytesOutPerSec", _TOPIC, "Bytes of records answered to fetches.")
PRODUCE_REQUESTS = kafka("server", "BrokerTopicMetrics", "TotalProduceRequestsPerSec", (), "Produce requests.")
FETCH_REQUESTS = kafka("server", "BrokerTopicMetrics", "TotalFetchRequestsPerSec", (), "Fetch requests.")
REQUESTS = kafka("network", "RequestMetrics", "RequestsPerSec", ("request", "version"), "Requests, by API and version.")
_PHASES = {
    "LocalTimeMs": "Milliseconds in the handlers, for a sample of the requests (docs/reference/monitoring.md).",
    "RemoteTimeMs": "What those requests then waited for: records, the disk, other members of a group.",
    "ResponseQueueTimeMs": "How long their answers then waited for the end of the event loop's turn.",
    "ResponseSendTimeMs": "How long it then took to send them.",
    "TotalTimeMs": "All that together.",
}
LOCAL_TIME, REMOTE_TIME, QUEUE_TIME, SEND_TIME, TOTAL_TIME = (
    kafka("network", "RequestMetrics", phase, ("request",), doc, Kind.SUMMARY) for phase, doc in _PHASES.items()
)
SENDFILE_BYTES = own("sendfile_bytes_total", (), "Bytes that went from log files to sockets by sendfile.")

# -- clients -----------------------------------------------------------------------------------------------------------
CONNECTIONS = own("connections", ("listener",), "Open connections.")
SOCKET_CONNECTIONS = attribute("socket-server-metrics", "connection-count", ("listener",), "The same.")
CONNECTIONS_CLOSED = own("connections_closed_total", (), "Connections that have ended.")
REQUEST_QUEUE = kafka("network", "RequestChannel", "RequestQueueSize", (), "Requests that wait for a worker.")
HELD_BYTES = own("held_request_bytes", (), "Bytes of requests that have come, and cannot be served yet.")
WAITING = own("purgatory_requests", (), "Requests that wait for records, or for a deadline.")
FETCH_SESSIONS = kafka("server", "FetchSessionCache", "NumIncrementalFetchSessions", (), "Fetch sessions.")
SESSION_PARTITIONS = kafka("server", "FetchSessionCache", "NumIncrementalFetchPartitionsCached", (),
    "Partitions in fetch sessions.")

# -- what clients push of themselves --------------------------------------------------------------------------------
CLIENT_INSTANCES = attribute("client-metrics", "instance-count", (), "Clients that have asked what they are to push.")
CLIENT_PUSHES = own("client_pushes_total", ("answer",), "Reports that clients have pushed, by what they were answered.")
CLIENT_SERIES = own("client_series", (), "Numbers of clients that are shown, as kafka_client_*.")
CLIENT_LEFT_OUT = own("client_numbers_left_out_total", (),
    "Numbers that clients have pushed and that are not shown, as there would be too many.")

# -- the event loop ----------------------------------------------------------------------------------------------------
LOOP_LAG = own("loop_lag_seconds", (), "How late the event loop came to a timer, four times a second.", Kind.HISTOGRAM)
LOOP_STALLS = own("loop_stalls_total", (), "Times that the event loop stood still for more than a second.")
LOOP_CPU = own("loop_cpu_seconds_total", (), "Processor time of the event loop's thread.")
LOOP_IDLE = kafka("network", "SocketServer", "NetworkProcessorAvgIdlePercent", (),
    "Part of the last 30 seconds in which the event loop's thread had nothing to compute, 0 to 1.")
_ALSO_IDLE = "The same: one thread both moves bytes and serves requests."
PROCESSOR_IDLE = Metric("kafka_network_socketserver_networkprocessoravgidle_percent", Kind.GAUGE, (), _ALSO_IDLE,
    "kafka.network:type=SocketServer,name=NetworkProcessorAvgIdlePercent")
HANDLER_IDLE = Metric("kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent", Kind.GAUGE, (), _ALSO_IDLE,
    "kafka.server:type=KafkaRequestHandlerPool,name=RequestHandlerAvgIdlePercent")
TIMERS = own("timers", (), "Deadlines that the broker has noted.")
THREAD_CALLS = own("thread_calls", ("pool",), "Calls that wait for a thread, or are under way in one.")
WORKERS_SERVING = own("workers_serving", (), "Of num.workers, the processes that serve clients now.")
WORKER_RESTARTS = own("worker_restarts_total", (), "Times that one of num.workers has died and was started again.")
WORKER_PROCESSES = own("worker_processes", (), "Processes for batches that have to be opened.")
DISK_READ = kafka("server", "KafkaServer", "linux-disk-read-bytes", (), "Bytes that the process had read from disks.")
DISK_WRITTEN = kafka("server", "KafkaServer", "linux-disk-write-bytes", (), "Bytes that it had written to them.")

# -- partitions --------------------------------------------------------------------------------------------------------
BROKER_STATE = kafka("server", "KafkaServer", "BrokerState", (), "1: it starts, 3: it runs, 7: it shuts down.")
PARTITIONS = kafka("server", "ReplicaManager", "PartitionCount", (), "Partitions hosted.")
LEADERS = kafka("server", "ReplicaManager", "LeaderCount", (), "Partitions hosted that can be used.")
OFFLINE_REPLICAS = kafka("server", "ReplicaManager", "OfflineReplicaCount", (), "Partitions whose log is offline.")
UNDER_REPLICATED = kafka("server", "ReplicaManager", "UnderReplicatedPartitions", (),
    "Partitions with fewer replicas in sync than there are.")
UNDER_MIN_ISR = kafka("server", "ReplicaManager", "UnderMinIsrPartitionCount", (),
    "Partitions with fewer replicas in sync than min.insync.replicas.")
AT_MIN_ISR = kafka("server", "ReplicaManager", "AtMinIsrPartitionCount", (),
    "Partitions with just min.insync.replicas replicas in sync.")
ISR_SHRINKS = kafka("server", "ReplicaManager", "IsrShrinksPerSec", (), "0: there is one replica of each partition.")
ISR_EXPANDS = kafka("server", "ReplicaManager", "IsrExpandsPerSec", (), "0.")
UNCLEAN_ELECTIONS = kafka("controller", "ControllerStats", "UncleanLeaderElectionsPerSec", (), "0.")
PARTITION_UNDER_REPLICATED = kafka("cluster", "Partition", "UnderReplicated", _PARTITION,
    "1 where fewer replicas are in sync than there are.")
STABLE_OFFSET_LAG = kafka("cluster", "Partition", "LastStableOffsetLag", _PARTITION,
    "Offsets between the last stable offset and the high watermark.")

# -- logs --------------------------------------------------------------------------------------------------------------
LOG_SIZE = kafka("log", "Log", "Size", _PARTITION, "Bytes of the records of a partition.")
LOG_START = kafka("log", "Log", "LogStartOffset", _PARTITION, "First offset that may be read.")
LOG_END = kafka("log", "Log", "LogEndOffset", _PARTITION, "Offset of the next record.")
LOG_SEGMENTS = kafka("log", "Log", "NumLogSegments", _PARTITION, "Segments.")
UNFLUSHED = own("unflushed_records", (), "Records that are in the page cache, and perhaps not on the disk.")
FLUSHES = kafka("log", "LogFlushStats", "LogFlushRateAndTimeMs", (),
    "Flushes of a log to the disk, with the milliseconds that they took.", Kind.SUMMARY)
BACKGROUND_TASKS = own("background_tasks", (), "Lots of tasks on files that wait for the background thread.")
OFFLINE_DIRECTORIES = kafka("log", "LogManager", "OfflineLogDirectoryCount", (), "Log directories that are offline.")
DIRECTORY_OFFLINE = kafka("log", "LogManager", "LogDirectoryOffline", ("logDirectory",), "1 where it is offline.")
DIRECTORY_TOTAL = own("log_directory_size_bytes", ("logDirectory",), "Size of the volume that it lies on.")
DIRECTORY_FREE = own("log_directory_free_bytes", ("logDirectory",), "What is free there for users.")
CLEANER_ROUNDS = own("cleaner_rounds_total", (), "Rounds in which a compacted log was cleaned.")
CLEANER_READ = own("cleaner_read_bytes_total", (), "Bytes of records that those have read.")
CLEANER_KEPT = own("cleaner_kept_bytes_total", (), "Bytes of records that those have kept.")
CLEANER_ACTIVE = own("cleaner_active_rounds", (), "Logs that are being cleaned.")
UNCLEANABLE = kafka("log", "LogCleanerManager", "uncleanable-partitions-count", ("logDirectory",),
    "Compacted partitions that cannot be cleaned.")

# -- the cluster -------------------------------------------------------------------------------------------------------
ACTIVE_CONTROLLERS = kafka("controller", "KafkaController", "ActiveControllerCount", (), "1: the broker is its own.")
ACTIVE_BROKERS = kafka("controller", "KafkaController", "ActiveBrokerCount", (), "Brokers that take part.")
FENCED_BROKERS = kafka("controller", "KafkaController", "FencedBrokerCount", (), "Brokers that do not.")
TOPICS = kafka("controller", "KafkaController", "GlobalTopicCount", (), "Topics.")
ALL_PARTITIONS = kafka("controller", "KafkaController", "GlobalPartitionCount", (), "Partitions.")
OFFLINE_PARTITIONS = kafka("controller", "KafkaController", "OfflinePartitionsCount", (), "Those without a leader.")
NOT_PREFERRED = kafka("controller", "KafkaController", "PreferredReplicaImbalanceCount", (),
    "Partitions that another than their first replica leads.")
METADATA_OFFSET = kafka("controller", "KafkaController", "LastAppliedRecordOffset", (),
    "Offset of the last metadata record.")
METADATA_APPLIED = attribute("broker-metadata-metrics", "last-applied-record-offset", (), "The same.")
QUORUM_LEADER = attribute("raft-metrics", "current-leader", (), "The node that leads the quorum: this one.")
QUORUM_EPOCH = attribute("raft-metrics", "current-epoch", (), "Since when: its leader epoch.")
QUORUM_HIGH_WATERMARK = attribute("raft-metrics", "high-watermark", (), "Up to where the metadata is committed.")
QUORUM_END = attribute("raft-metrics", "log-end-offset", (), "Offset of the next metadata record.")

# -- groups ------------------------------------------------------------------------------------------------------------
_GROUPS = "coordinator.group", "GroupMetadataManager"
GROUPS = kafka(*_GROUPS, "NumGroups", (), "Groups of the classic protocol.")
GROUPS_BY_STATE = {
    state: kafka(*_GROUPS, f"NumGroups{state}", (), f"Those in state {state}.")
    for state in ("PreparingRebalance", "CompletingRebalance", "Stable", "Empty", "Dead")
}
OFFSETS = kafka(*_GROUPS, "NumOffsets", (), "Committed offsets.")
GROUPS_OF_TYPE = own("groups", ("type", "state"), "Groups of all kinds.")
GROUP_MEMBERS = Metric("kafka_consumergroup_members", Kind.GAUGE, _GROUP, "Members of a group.")
GROUP_OFFSET = Metric("kafka_consumergroup_current_offset", Kind.GAUGE, _GROUP + _PARTITION, "Committed offset.")
GROUP_LAG = Metric("kafka_consumergroup_lag", Kind.GAUGE, _GROUP + _PARTITION,
    "Offsets from the committed one to the high watermark.")

# -- queries of Spark that pybroker.spark.checkpoints names ------------------------------------------------------------
_QUERY = ("query",)
QUERY_OFFSET = own("spark_query_current_offset", _QUERY + _PARTITION, "Offset that the query reads next.")
QUERY_LAG = own("spark_query_lag", _QUERY + _PARTITION, "Offsets from that one to the high watermark.")
QUERY_BATCH = own("spark_query_batch", _QUERY, "Number of its newest batch that is done.")
QUERY_COMMITTED = own("spark_query_commit_timestamp_seconds", _QUERY, "When that one was done, since 1970.")
QUERIES_UNREADABLE = own("spark_unreadable_checkpoints", (), "Checkpoints, and folders of them, that cannot be read.")
HELD_BY_RETENTION = own("retention_held_bytes", _PARTITION,
    "Bytes that are over by retention, and are kept for queries and archives that are behind.")

# -- transactions ------------------------------------------------------------------------------------------------------
TRANSACTIONS = own("transactions", ("state",), "Transactions that are ongoing, or decided and not complete.")
TRANSACTIONAL_IDS = own("transactional_ids", (), "Transactional ids that are known.")
INFO = own("info", ("version", "cluster_id", "node_id"), "Always 1; what it is stands in the labels.")
# fmt: on

METRICS: tuple[Metric, ...] = tuple(
    metric
    for found in list(globals().values())
    for metric in ((found,) if isinstance(found, Metric) else found.values() if isinstance(found, dict) else ())
    if isinstance(metric, Metric)
)
