"""All metrics. Each is a constant, which the sources of samples name; `METRICS` has them in the order of this file."""

from __future__ import annotations

from broker.observability.metrics.metric import (
    Kind,
    Metric,
    attribute,
    kafka,
    of_controllers,
    of_members,
    of_tiers,
    own,
)

_TOPIC, _PARTITION, _GROUP = ("topic",), ("topic", "partition"), ("consumergroup",)

# fmt: off
# -- traffic -----------------------------------------------------------------------------------------------------------
MESSAGES_IN = kafka("server", "BrokerTopicMetrics", "MessagesInPerSec", _TOPIC, "Records appended.")
BYTES_IN = kafka("server", "BrokerTopicMetrics", "BytesInPerSec", _TOPIC, "Bytes of records appended.")
BYTES_OUT = kafka("server", "BrokerTopicMetrics", "BytesOutPerSec", _TOPIC, "Bytes of records returned to fetches.")
PRODUCE_REQUESTS = kafka("server", "BrokerTopicMetrics", "TotalProduceRequestsPerSec", (), "Produce requests.")
FETCH_REQUESTS = kafka("server", "BrokerTopicMetrics", "TotalFetchRequestsPerSec", (), "Fetch requests.")
REQUESTS = kafka("network", "RequestMetrics", "RequestsPerSec", ("request", "version"), "Requests, by API and version.")
_PHASES = {
    "LocalTimeMs": "Milliseconds in the handler, sampled (docs/reference/monitoring.md).",
    "RemoteTimeMs": "Milliseconds of waiting for records, the disk or members of a group.",
    "ResponseQueueTimeMs": "Milliseconds that the response waits for the end of the turn.",
    "ResponseSendTimeMs": "Milliseconds of sending the response.",
    "TotalTimeMs": "Sum of these times, in milliseconds.",
}
LOCAL_TIME, REMOTE_TIME, QUEUE_TIME, SEND_TIME, TOTAL_TIME = (
    kafka("network", "RequestMetrics", phase, ("request",), doc, Kind.SUMMARY) for phase, doc in _PHASES.items()
)
SENDFILE_BYTES = own("sendfile_bytes_total", (), "Bytes sent from log files by sendfile.")

# -- clients -----------------------------------------------------------------------------------------------------------
CONNECTIONS = own("connections", ("listener",), "Open connections.")
SOCKET_CONNECTIONS = attribute("socket-server-metrics", "connection-count", ("listener",), "Open connections.")
CONNECTIONS_CLOSED = own("connections_closed_total", (), "Closed connections.")
MISROUTED_CONNECTIONS = own("misrouted_connections_total", (),
    "Connections of clients that wanted another broker or cluster (KIP-1242).")
REQUEST_QUEUE = kafka("network", "RequestChannel", "RequestQueueSize", (), "Requests that wait for a worker process.")
HELD_BYTES = own("held_request_bytes", (), "Bytes of received requests that cannot be served yet.")
WAITING = own("purgatory_requests", (), "Requests that wait for records or a deadline.")
FETCH_SESSIONS = kafka("server", "FetchSessionCache", "NumIncrementalFetchSessions", (), "Fetch sessions.")
SESSION_PARTITIONS = kafka("server", "FetchSessionCache", "NumIncrementalFetchPartitionsCached", (),
    "Partitions in fetch sessions.")

# -- metrics that clients push -------------------------------------------------------------------------------------
CLIENT_INSTANCES = attribute("client-metrics", "instance-count", (), "Clients that asked for their subscription.")
CLIENT_PUSHES = own("client_pushes_total", ("answer",), "Reports that clients pushed, by result.")
CLIENT_SERIES = own("client_series", (), "Series of clients, shown as kafka_client_*.")
CLIENT_LEFT_OUT = own("client_numbers_left_out_total", (),
    "Pushed numbers that are not shown because of the limits.")

# -- the event loop ----------------------------------------------------------------------------------------------------
LOOP_LAG = own("loop_lag_seconds", (),
    "Delay of a timer of the event loop, measured four times a second.", Kind.HISTOGRAM)
LOOP_STALLS = own("loop_stalls_total", (), "Times that the event loop was blocked for more than a second.")
LOOP_CPU = own("loop_cpu_seconds_total", (), "Processor time of the event loop's thread.")
LOOP_IDLE = kafka("network", "SocketServer", "NetworkProcessorAvgIdlePercent", (),
    "Idle share of the event loop's thread in the last 30 seconds, 0 to 1.")
_ALSO_IDLE = "The same value: one thread does both kinds of work."
PROCESSOR_IDLE = Metric("kafka_network_socketserver_networkprocessoravgidle_percent", Kind.GAUGE, (), _ALSO_IDLE,
    "kafka.network:type=SocketServer,name=NetworkProcessorAvgIdlePercent")
HANDLER_IDLE = Metric("kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent", Kind.GAUGE, (), _ALSO_IDLE,
    "kafka.server:type=KafkaRequestHandlerPool,name=RequestHandlerAvgIdlePercent")
TIMERS = own("timers", (), "Scheduled timers.")
THREAD_CALLS = own("thread_calls", ("pool",), "Calls that wait for a thread or run in one.")
WORKER_PROCESSES = own("worker_processes", (), "Processes that open batches.")
DISK_READ = kafka("server", "KafkaServer", "linux-disk-read-bytes", (), "Bytes that the process read from disks.")
DISK_WRITTEN = kafka("server", "KafkaServer", "linux-disk-write-bytes", (), "Bytes that the process wrote to disks.")

# -- partitions --------------------------------------------------------------------------------------------------------
BROKER_STATE = kafka("server", "KafkaServer", "BrokerState", (), "1: starting, 3: running, 7: shutting down.")
PARTITIONS = kafka("server", "ReplicaManager", "PartitionCount", (), "Hosted partitions.")
LEADERS = kafka("server", "ReplicaManager", "LeaderCount", (), "Available partitions that this broker leads.")
OFFLINE_REPLICAS = kafka("server", "ReplicaManager", "OfflineReplicaCount", (), "Partitions whose log is offline.")
UNDER_REPLICATED = kafka("server", "ReplicaManager", "UnderReplicatedPartitions", (),
    "Partitions with fewer replicas in sync than assigned.")
UNDER_MIN_ISR = kafka("server", "ReplicaManager", "UnderMinIsrPartitionCount", (),
    "Partitions with fewer replicas in sync than min.insync.replicas, or than replicas if those are fewer.")
AT_MIN_ISR = kafka("server", "ReplicaManager", "AtMinIsrPartitionCount", (),
    "Partitions with exactly min.insync.replicas replicas in sync, or with all if they have no more replicas.")
ISR_SHRINKS = kafka("server", "ReplicaManager", "IsrShrinksPerSec", (), "Replicas that fell out of sync.")
ISR_EXPANDS = kafka("server", "ReplicaManager", "IsrExpandsPerSec", (), "Replicas that came into sync.")
UNCLEAN_ELECTIONS = kafka("controller", "ControllerStats", "UncleanLeaderElectionsPerSec", (),
    "Elected leaders that may lack committed records. 0 without the controller's role: the controller counts them.")
ELIGIBLE_ELECTIONS = of_controllers(kafka("controller", "ControllerStats", "ElectionFromEligibleLeaderReplicasPerSec",
    (), "Elected leaders that were no longer in sync, but have all committed records (KIP-966)."))
PARTITION_UNDER_REPLICATED = kafka("cluster", "Partition", "UnderReplicated", _PARTITION,
    "1 if fewer replicas are in sync than assigned.")
STABLE_OFFSET_LAG = kafka("cluster", "Partition", "LastStableOffsetLag", _PARTITION,
    "Offsets between the last stable offset and the high watermark.")

# -- replicas ----------------------------------------------------------------------------------------------------------
_FETCHERS = "server", "ReplicaFetcherManager"
_OF_FETCHER, _OF_REPLICA = ("clientId",), ("clientId", "topic", "partition")
REASSIGNING = of_members(kafka("server", "ReplicaManager", "ReassigningPartitions", (),
    "Partitions that this broker leads and that get other replicas."))
FAILED_ISR_UPDATES = of_members(kafka("server", "ReplicaManager", "FailedIsrUpdatesPerSec", (),
    "Changes of in-sync replicas that the controller refused."))
REPLICATION_BYTES_IN = of_members(kafka("server", "BrokerTopicMetrics", "ReplicationBytesInPerSec", (),
    "Bytes of records copied from leaders."))
REPLICATION_BYTES_OUT = of_members(kafka("server", "BrokerTopicMetrics", "ReplicationBytesOutPerSec", (),
    "Bytes of records returned to followers."))
REASSIGNMENT_BYTES_IN = of_members(kafka("server", "BrokerTopicMetrics", "ReassignmentBytesInPerSec", (),
    "Bytes of records copied from leaders into replicas that a reassignment adds."))
REASSIGNMENT_BYTES_OUT = of_members(kafka("server", "BrokerTopicMetrics", "ReassignmentBytesOutPerSec", (),
    "Bytes of records returned to followers that a reassignment adds."))
MAX_LAG = of_members(kafka(*_FETCHERS, "MaxLag", _OF_FETCHER,
    "Most records that a followed partition is behind its leader."))
MIN_FETCH_RATE = of_members(kafka(*_FETCHERS, "MinFetchRate", _OF_FETCHER,
    "Fetches a second of the slowest fetcher, since it connected; 0 without fetchers."))
FAILED_FETCHES = of_members(kafka(*_FETCHERS, "FailedPartitionsCount", _OF_FETCHER,
    "Followed partitions that are not fetched because their log failed."))
DEAD_FETCHERS = of_members(kafka(*_FETCHERS, "DeadThreadCount", _OF_FETCHER,
    "0: fetchers are tasks of the event loop, which ends with the broker."))
FETCHER_LAG = of_members(kafka("server", "FetcherLagMetrics", "ConsumerLag", _OF_REPLICA,
    "Records that a followed partition is behind the high watermark of its leader."))

# -- logs --------------------------------------------------------------------------------------------------------------
LOG_SIZE = kafka("log", "Log", "Size", _PARTITION, "Size of a partition in bytes.")
LOG_START = kafka("log", "Log", "LogStartOffset", _PARTITION, "First offset that can be read.")
LOG_END = kafka("log", "Log", "LogEndOffset", _PARTITION, "Offset of the next record.")
LOG_SEGMENTS = kafka("log", "Log", "NumLogSegments", _PARTITION, "Segments.")
UNFLUSHED = own("unflushed_records", (), "Records that may not be on the disk yet.")
FLUSHES = kafka("log", "LogFlushStats", "LogFlushRateAndTimeMs", (),
    "Flushes of logs to the disk, with their milliseconds.", Kind.SUMMARY)
BACKGROUND_TASKS = own("background_tasks", (), "Batches of file tasks that wait for the background thread.")
OFFLINE_DIRECTORIES = kafka("log", "LogManager", "OfflineLogDirectoryCount", (), "Log directories that are offline.")
DIRECTORY_OFFLINE = kafka("log", "LogManager", "LogDirectoryOffline", ("logDirectory",),
    "1 if the directory is offline.")
DIRECTORY_TOTAL = own("log_directory_size_bytes", ("logDirectory",), "Size of the directory's volume.")
DIRECTORY_FREE = own("log_directory_free_bytes", ("logDirectory",), "Free bytes of that volume for users.")
CLEANER_ROUNDS = own("cleaner_rounds_total", (), "Finished cleaning rounds.")
CLEANER_READ = own("cleaner_read_bytes_total", (), "Bytes that cleaning rounds read.")
CLEANER_KEPT = own("cleaner_kept_bytes_total", (), "Bytes that cleaning rounds kept.")
CLEANER_ACTIVE = own("cleaner_active_rounds", (), "Logs that are being cleaned.")
UNCLEANABLE = kafka("log", "LogCleanerManager", "uncleanable-partitions-count", ("logDirectory",),
    "Compacted partitions that cannot be cleaned.")

# -- tiered storage ----------------------------------------------------------------------------------------------------
_OF_TOPICS = "server", "BrokerTopicMetrics"
TIER_TRAFFIC = {
    field: of_tiers(kafka(*_OF_TOPICS, name, _TOPIC, doc))
    for field, name, doc in (
        ("copied_bytes", "RemoteCopyBytesPerSec", "Bytes of segments copied to remote storage."),
        ("copy_requests", "RemoteCopyRequestsPerSec", "Copies of segments that were begun."),
        ("copy_errors", "RemoteCopyErrorsPerSec", "Copies that failed."),
        ("fetched_bytes", "RemoteFetchBytesPerSec", "Bytes read from remote storage."),
        ("fetch_requests", "RemoteFetchRequestsPerSec", "Reads from remote storage."),
        ("fetch_errors", "RemoteFetchErrorsPerSec", "Reads that failed."),
        ("delete_requests", "RemoteDeleteRequestsPerSec", "Deletions of segments that were begun."),
        ("delete_errors", "RemoteDeleteErrorsPerSec", "Deletions that failed."),
        ("aux_requests", "BuildRemoteLogAuxStateRequestsPerSec",
            "Followers that continue where remote storage ends."),
        ("aux_errors", "BuildRemoteLogAuxStateErrorsPerSec", "Followers that could not."),
    )
}
TIER_SIZES = {
    name: of_tiers(kafka(*_OF_TOPICS, name, _TOPIC, doc))
    for name, doc in (
        ("RemoteCopyLagBytes", "Bytes of closed segments that are not copied yet."),
        ("RemoteCopyLagSegments", "Closed segments that are not copied yet."),
        ("RemoteDeleteLagBytes", "Bytes of segments in remote storage that have expired."),
        ("RemoteDeleteLagSegments", "Segments in remote storage that have expired."),
        ("RemoteLogMetadataCount", "Segments in remote storage, in any state."),
        ("RemoteLogSizeBytes", "Bytes of these segments."),
        ("RemoteLogSizeComputationTime", "Milliseconds of the last look for expired segments."),
    )
}
_TIER, _POOL = ("log.remote", "RemoteLogManager"), ("log.remote", "RemoteStorageThreadPool")
TIER_TASKS_IDLE = of_tiers(kafka(*_TIER, "RemoteLogManagerTasksAvgIdlePercent", (),
    "Idle share of the threads that copy, 0 to 1."))
TIER_READERS_IDLE = of_tiers(kafka(*_POOL, "RemoteLogReaderAvgIdlePercent", (),
    "Idle share of the threads that read, 0 to 1."))
TIER_READS_QUEUED = of_tiers(kafka(*_POOL, "RemoteLogReaderTaskQueueSize", (), "Reads that wait for a thread."))
TIER_READ_TIMES = of_tiers(kafka(*_TIER, "RemoteLogReaderFetchRateAndTimeMs", (),
    "Reads from remote storage, with their milliseconds.", Kind.SUMMARY))
RETENTION_PERCENT = of_tiers(kafka(*_TIER, "RetentionSizeInPercent", _PARTITION,
    "Size in both tiers, in percent of retention.bytes; 0 without that."))
LOCAL_RETENTION_PERCENT = of_tiers(kafka(*_TIER, "LocalRetentionSizeInPercent", _PARTITION,
    "Size on this disk, in percent of local.retention.bytes; 0 without that."))
TIER_THROTTLE = {
    kind: tuple(
        of_tiers(attribute("RemoteLogManager", f"remote-{kind}-throttle-time-{short}", (),
            f"{long} wait of a {kind} because of the quota, in ms."))
        for short, long in (("avg", "Average"), ("max", "Longest"))
    )
    for kind in ("copy", "fetch")
}
TIER_FAILING = of_tiers(own("remote_failing_partitions", ("work",),
    "Partitions whose last copy to remote storage, or last deletion there, has failed."))
TIER_STORE_FAILS = of_tiers(own("remote_storage_failing", (),
    "1 while remote storage fails, or refuses the credentials, and is only tried now and then."))
TIER_STORE_LIMIT = of_tiers(own("remote_storage_request_limit", (),
    "Requests that remote storage may get at once; fewer after it has asked for less."))
TIER_OLDEST_UPLOAD = of_tiers(own("remote_oldest_upload_seconds", (), "Age of the oldest upload that has not ended."))

# -- the cluster -------------------------------------------------------------------------------------------------------
ACTIVE_CONTROLLERS = kafka("controller", "KafkaController", "ActiveControllerCount", (),
    "1 in a controller, as a node alone is; 0 in a member of a cluster.")
ACTIVE_BROKERS = kafka("controller", "KafkaController", "ActiveBrokerCount", (), "Unfenced brokers.")
FENCED_BROKERS = kafka("controller", "KafkaController", "FencedBrokerCount", (), "Fenced brokers.")
TOPICS = kafka("controller", "KafkaController", "GlobalTopicCount", (), "Topics.")
ALL_PARTITIONS = kafka("controller", "KafkaController", "GlobalPartitionCount", (), "Partitions.")
OFFLINE_PARTITIONS = kafka("controller", "KafkaController", "OfflinePartitionsCount", (),
    "Partitions without a leader.")
NOT_PREFERRED = kafka("controller", "KafkaController", "PreferredReplicaImbalanceCount", (),
    "Partitions whose leader is not the preferred replica.")
METADATA_OFFSET = kafka("controller", "KafkaController", "LastAppliedRecordOffset", (),
    "Offset of the last metadata record.")
METADATA_COMMITTED = of_controllers(kafka("controller", "KafkaController", "LastCommittedRecordOffset", (),
    "Offset of the last metadata record that is on the disk."))
METADATA_APPLIED_AT = of_controllers(kafka("controller", "KafkaController", "LastAppliedRecordTimestamp", (),
    "When the last metadata record was written, in ms."))
METADATA_APPLIED_LAG = of_controllers(kafka("controller", "KafkaController", "LastAppliedRecordLagMs", (),
    "Age of the last metadata record in ms."))
METADATA_ERRORS = of_controllers(kafka("controller", "KafkaController", "MetadataErrorCount", (),
    "0: metadata that cannot be written or applied ends the controller."))
EXPIRED_HEARTBEATS = of_controllers(kafka("controller", "KafkaController", "TimedOutBrokerHeartbeatCount", (),
    "Brokers fenced because their heartbeats stopped, since the start."))
METADATA_APPLIED = attribute("broker-metadata-metrics", "last-applied-record-offset", (),
    "Offset of the last metadata record.")
METADATA_TIMESTAMP = of_members(attribute("broker-metadata-metrics", "last-applied-record-timestamp", (),
    "When the controller wrote the last metadata record, in ms."))
METADATA_LAG = of_members(attribute("broker-metadata-metrics", "last-applied-record-lag-ms", (),
    "Age of the last metadata record in ms."))
METADATA_LOAD_ERRORS = of_members(attribute("broker-metadata-metrics", "metadata-load-error-count", (),
    "0: a metadata record that cannot be read ends the broker."))
METADATA_APPLY_ERRORS = of_members(attribute("broker-metadata-metrics", "metadata-apply-error-count", (),
    "0: a metadata record that cannot be applied ends the broker."))
QUORUM_LEADER = attribute("raft-metrics", "current-leader", (), "Leader of the quorum: in a node alone this node.")
QUORUM_EPOCH = attribute("raft-metrics", "current-epoch", (), "Leader epoch of the quorum.")
QUORUM_HIGH_WATERMARK = attribute("raft-metrics", "high-watermark", (), "High watermark of the metadata log.")
QUORUM_END = attribute("raft-metrics", "log-end-offset", (), "Offset of the next metadata record.")

# -- groups ------------------------------------------------------------------------------------------------------------
_GROUPS = "coordinator.group", "GroupMetadataManager"
GROUPS = kafka(*_GROUPS, "NumGroups", (), "Groups of the classic protocol.")
GROUPS_BY_STATE = {
    state: kafka(*_GROUPS, f"NumGroups{state}", (), f"Classic groups in state {state}.")
    for state in ("PreparingRebalance", "CompletingRebalance", "Stable", "Empty", "Dead")
}
OFFSETS = kafka(*_GROUPS, "NumOffsets", (), "Committed offsets.")
GROUPS_OF_TYPE = own("groups", ("type", "state"), "Groups of all kinds.")
GROUP_MEMBERS = Metric("kafka_consumergroup_members", Kind.GAUGE, _GROUP, "Members of a group.")
GROUP_OFFSET = Metric("kafka_consumergroup_current_offset", Kind.GAUGE, _GROUP + _PARTITION, "Committed offset.")
GROUP_LAG = Metric("kafka_consumergroup_lag", Kind.GAUGE, _GROUP + _PARTITION,
    "High watermark minus committed offset.")

_DEAD_LETTERS = "server", "ShareGroupMetrics"
DEAD_LETTERS = kafka(*_DEAD_LETTERS, "DeadLetterQueueRecordCount", ("group",),
    "Records written to the dead-letter queue of a share group.", Kind.COUNTER)
DEAD_LETTER_REQUESTS = kafka(*_DEAD_LETTERS, "DeadLetterQueueTotalProduceRequestsPerSec", ("group",),
    "Writes to that queue, with those that failed.")
DEAD_LETTER_FAILURES = kafka(*_DEAD_LETTERS, "DeadLetterQueueFailedProduceRequestsPerSec", ("group",),
    "Writes to that queue that were given up.")

# -- queries of Spark that pybroker.spark.checkpoints names ------------------------------------------------------------
_QUERY = ("query",)
QUERY_OFFSET = own("spark_query_current_offset", _QUERY + _PARTITION, "Offset that the query reads next.")
QUERY_LAG = own("spark_query_lag", _QUERY + _PARTITION, "High watermark minus that offset.")
QUERY_BATCH = own("spark_query_batch", _QUERY, "Number of the query's newest finished batch.")
QUERY_COMMITTED = own("spark_query_commit_timestamp_seconds", _QUERY, "Time of that batch, in seconds since 1970.")
QUERIES_UNREADABLE = own("spark_unreadable_checkpoints", (), "Checkpoints and folders that cannot be read.")
HELD_BY_RETENTION = own("retention_held_bytes", _PARTITION,
    "Expired bytes that are kept for lagging queries and archives.")

# -- transactions ------------------------------------------------------------------------------------------------------
TRANSACTIONS = own("transactions", ("state",), "Transactions that are ongoing or not yet complete.")
TRANSACTIONAL_IDS = own("transactional_ids", (), "Known transactional ids.")
INFO = own("info", ("version", "cluster_id", "node_id"), "Always 1; the labels have the information.")
# fmt: on

METRICS: tuple[Metric, ...] = tuple(
    metric
    for found in list(globals().values())
    for each in ((found,) if isinstance(found, Metric) else found.values() if isinstance(found, dict) else ())
    for metric in (each if isinstance(each, tuple) and not isinstance(each, Metric) else (each,))
    if isinstance(metric, Metric)
)
