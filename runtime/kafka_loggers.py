"""The loggers of Apache Kafka 4.3, so that users can set levels by the names that they know.

`MEANINGS` maps each to the logger here that does the same work. A logger without a counterpart keeps its level and logs
nothing, as most do in Kafka, too. Pure rooms log nothing: the room that calls them logs for them.
"""

MEANINGS = {
    "kafka.authorizer": "broker.audit",
    "kafka.cluster": "broker.replicas.partitions",
    "kafka.coordinator.transaction": "broker.coordinators.transaction",
    "kafka.log": "broker.maintenance",
    "kafka.log.LogCleaner": "broker.maintenance.log_cleaner",
    "kafka.network": "broker.network",
    "kafka.request": "broker.requests.dispatcher",
    "kafka.server": "broker",
    "kafka.server.ControllerApis": "controller.controller",
    "kafka.server.ControllerServer": "controller.controller",
    "kafka.server.DelayedFetch": "runtime.purgatory",
    "kafka.server.KafkaApis": "broker.handlers",
    "kafka.server.ReplicaManager": "broker.replicas.partitions",
    "org.apache.kafka.common.config": "config",
    "org.apache.kafka.common.network": "broker.network",
    "org.apache.kafka.controller": "controller.controller",
    "org.apache.kafka.coordinator.common": "broker.coordinators",
    "org.apache.kafka.coordinator.group": "broker.coordinators.group",
    "org.apache.kafka.coordinator.share": "broker.coordinators.share",
    "org.apache.kafka.coordinator.transaction": "broker.coordinators.transaction",
    "org.apache.kafka.image": "controller",
    "org.apache.kafka.metadata": "controller",
    "org.apache.kafka.raft": "controller",
    "org.apache.kafka.server": "broker",
    "org.apache.kafka.server.purgatory": "runtime.purgatory",
    "org.apache.kafka.server.quota": "broker.access.quotas",
    "org.apache.kafka.snapshot": "controller",
    "org.apache.kafka.storage": "broker.maintenance",
    "org.apache.kafka.storage.internals.log.Cleaner": "broker.maintenance.log_cleaner",
    "org.apache.kafka.storage.internals.log.LogCleaner": "broker.maintenance.log_cleaner",
    "org.apache.kafka.storage.internals.log.LogCleaner$CleanerThread": "broker.maintenance.log_cleaner",
    "state.change": "controller.controller",
}
"""Loggers or packages of Kafka, and the logger here that does the same work. The longest matching prefix counts."""

_BY_PACKAGE = {
    "": "LogFutureTimestampLogger",
    "com.yammer.metrics.reporting": "JmxReporter",
    "kafka.authorizer": "logger",
    "kafka.cluster": "Partition",
    "kafka.coordinator.transaction": (
        "TransactionCoordinator TransactionMarkerChannelManager TransactionMarkerRequestCompletionHandler "
        "TransactionStateManager TxnMarkerQueue"
    ),
    "kafka.log": "LogCleaner LogManager",
    "kafka.network": "ConnectionQuotas DataPlaneAcceptor Processor RequestChannel$ SocketServer",
    "kafka.request": "logger",
    "kafka.server": (
        "BrokerServer ConfigAdminManager ControllerApis ControllerRegistrationManager ControllerServer "
        "DefaultAutoTopicCreationManager DelayedFetch KafkaApis KafkaRaftServer KafkaRequestHandler "
        "ReplicaAlterLogDirsManager ReplicaFetcherManager ReplicaManager ReplicaManager$LogDirFailureHandler "
        "ReplicationQuotaManager SharedServer TopicConfigHandler"
    ),
    "kafka.server.metadata": "BrokerMetadataPublisher DynamicConfigPublisher",
    "kafka.server.share": "ShareCoordinatorMetadataCacheHelperImpl SharePartitionManager",
    "kafka.utils": "Log4jControllerRegistration$",
    "org.apache.kafka.clients": "ClientUtils ClusterConnectionStates CommonClientConfigs NetworkClient",
    "org.apache.kafka.common.config": "AbstractConfig ConfigDef",
    "org.apache.kafka.common.metrics": "JmxReporter Metrics",
    "org.apache.kafka.common.metrics.stats": "Percentiles",
    "org.apache.kafka.common.network": "ChannelBuilders NetworkReceive Selector",
    "org.apache.kafka.common.protocol": "Errors",
    "org.apache.kafka.common.record.internal": "ControlRecordType EndTransactionMarker MultiRecordsSend",
    "org.apache.kafka.common.requests": "DeleteAclsResponse FetchMetadata OffsetFetchRequest",
    "org.apache.kafka.common.security.oauthbearer": "DefaultJwtRetriever",
    "org.apache.kafka.common.utils": (
        "AppInfoParser ConfigUtils KafkaThread LoggingSignalHandler SecurityUtils ThreadUtils Utils"
    ),
    "org.apache.kafka.controller": (
        "AclControlManager BrokerHeartbeatManager ClientQuotaControlManager ClusterControlManager "
        "ConfigurationControlManager DelegationTokenControlManager EventPerformanceMonitor FeatureControlManager "
        "OffsetControlManager PartitionChangeBuilder PeriodicTaskControlManager ProducerIdControlManager "
        "QuorumController ReplicationControlManager ScramControlManager"
    ),
    "org.apache.kafka.coordinator.common.runtime": (
        "CoordinatorExecutorImpl CoordinatorLoaderImpl CoordinatorRuntime CoordinatorTimerImpl "
        "MultiThreadedEventProcessor MultiThreadedEventProcessor$EventProcessorThread SnapshottableCoordinator"
    ),
    "org.apache.kafka.coordinator.group": (
        "GroupConfig GroupCoordinatorConfig GroupCoordinatorService GroupCoordinatorShard GroupMetadataManager "
        "OffsetMetadataManager"
    ),
    "org.apache.kafka.coordinator.group.assignor": "SimpleAssignor UniformAssignor",
    "org.apache.kafka.coordinator.group.classic": "ClassicGroup",
    "org.apache.kafka.coordinator.group.modern.consumer": "ConsumerGroup",
    "org.apache.kafka.coordinator.group.streams.assignor": "StickyTaskAssignor",
    "org.apache.kafka.coordinator.share": "ShareCoordinatorService ShareCoordinatorShard",
    "org.apache.kafka.coordinator.transaction": "RPCProducerIdManager TransactionMetadata",
    "org.apache.kafka.deferred": "DeferredEventQueue",
    "org.apache.kafka.image.loader": "MetadataBatchLoader MetadataLoader",
    "org.apache.kafka.image.publisher": "BrokerRegistrationTracker SnapshotEmitter SnapshotGenerator",
    "org.apache.kafka.metadata": "KRaftMetadataCache ListenerInfo",
    "org.apache.kafka.metadata.authorizer": "StandardAuthorizerData",
    "org.apache.kafka.metadata.properties": "MetaPropertiesEnsemble",
    "org.apache.kafka.metadata.publisher": "AclPublisher FeaturesPublisher",
    "org.apache.kafka.metadata.util": "BatchFileReader",
    "org.apache.kafka.queue": "KafkaEventQueue",
    "org.apache.kafka.raft": (
        "CandidateState FileQuorumStateStore KafkaNetworkChannel KafkaNetworkChannel$SendThread KafkaRaftClient "
        "KafkaRaftClientDriver LeaderState ProspectiveState QuorumState "
        "TimingWheelExpirationService$ExpiredOperationReaper UnattachedState"
    ),
    "org.apache.kafka.raft.internals": (
        "AddVoterHandler DefaultRequestSender KRaftControlRecordStateMachine KafkaRaftLog RecordsIterator "
        "RemoveVoterHandler UpdateVoterHandler VoterSetHistory"
    ),
    "org.apache.kafka.server": (
        "AssignmentsManager BrokerFeatures BrokerLifecycleManager ClientMetricsManager DelayedActionQueue "
        "FetchContext$FullFetchContext FetchContext$IncrementalFetchContext FetchContext$SessionErrorContext "
        "FetchContext$SessionlessFetchContext FetchManager FetchSessionCacheShard "
        "NodeToControllerChannelManagerImpl NodeToControllerRequestThread"
    ),
    "org.apache.kafka.server.config": "ConfigSynonym DynamicProducerStateManagerConfig",
    "org.apache.kafka.server.fault": "LoggingFaultHandler ProcessTerminatingFaultHandler",
    "org.apache.kafka.server.logger": "LoggingController",
    "org.apache.kafka.server.metrics": "LinuxIoMetricsCollector",
    "org.apache.kafka.server.network": "EndpointReadyFutures",
    "org.apache.kafka.server.purgatory": (
        "DelayedFuture DelayedOperationPurgatory DelayedOperationPurgatory$ExpiredOperationReaper DelayedProduce "
        "DelayedRemoteListOffsets"
    ),
    "org.apache.kafka.server.quota": (
        "ClientQuotaManager ClientQuotaManager$ThrottledChannelReaper ControllerMutationQuotaManager"
    ),
    "org.apache.kafka.server.share.persister": (
        "DefaultStatePersister PersisterStateManager$InitializeStateHandler "
        "PersisterStateManager$ReadStateSummaryHandler PersisterStateManager$SendThread"
    ),
    "org.apache.kafka.server.transaction": "AddPartitionsToTxnManager",
    "org.apache.kafka.server.util": "FileLock KafkaScheduler NetworkPartitionMetadataClient",
    "org.apache.kafka.server.util.timer": "SystemTimerReaper$Reaper",
    "org.apache.kafka.snapshot": "Snapshots",
    "org.apache.kafka.storage.internals.checkpoint": "CheckpointFileWithFailureHandler CleanShutdownFileHandler",
    "org.apache.kafka.storage.internals.epoch": "LeaderEpochFileCache",
    "org.apache.kafka.storage.internals.log": (
        "AbstractIndex Cleaner LocalLog LogCleaner LogCleaner$CleanerThread LogDirFailureChannel LogLoader "
        "LogSegment OffsetIndex ProducerAppendInfo ProducerStateManager SnapshotFile TimeIndex UnifiedLog"
    ),
    "org.apache.kafka.storage.internals.utils": "Throttler",
    "org.apache.kafka.storage.log.metrics": "BrokerTopicStats",
    "org.apache.kafka.timeline": "SnapshotRegistry",
    "state.change": "logger",
}

_OF_ALL = frozenset({"kafka", "org.apache.kafka"})
"""Further loggers in the log4j2.yaml that Kafka ships; they set the level of all loggers below them."""

KAFKA_LOGGERS = (
    frozenset(
        f"{package}.{name}" if package else name for package, names in _BY_PACKAGE.items() for name in names.split()
    )
    | {"org.apache.kafka.controller"}
    | _OF_ALL
)


def meaning(name: str) -> str:
    """Return the logger here that corresponds to a logger of Kafka, or the same name if there is none."""
    if name in _OF_ALL:
        return "broker"
    beginning = name
    while beginning:
        if beginning in MEANINGS:
            return MEANINGS[beginning]
        beginning = beginning.rpartition(".")[0]
    return name
