package kafka.server;

import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.CompletableFuture;
import kafka.cluster.Partition;
import kafka.log.LogManager;
import kafka.network.SocketServer;
import org.apache.kafka.common.Endpoint;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.group.GroupCoordinator;
import org.apache.kafka.metadata.BrokerState;
import org.apache.kafka.metadata.KRaftMetadataCache;
import org.apache.kafka.metadata.LeaderAndIsr;
import org.apache.kafka.metadata.properties.MetaPropertiesEnsemble;
import org.apache.kafka.server.BrokerLifecycleManager;
import org.apache.kafka.server.ServerSocketFactory;
import org.apache.kafka.server.metrics.KafkaYammerMetrics;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.mockito.Mockito;
import org.mockito.stubbing.Answer;
import org.opentest4j.TestAbortedException;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A member of pybroker in the place of Apache Kafka's broker: a process of its own, started with the properties that the
 * test gives the broker. Only the image of the metadata log is in this JVM, for tests that look at it.
 */
public class BrokerServer extends EmptyBroker {
    private final SharedServer sharedServer;
    private final KafkaConfig config;
    private final NodeProcess process;
    private volatile SharedServer observer;
    private volatile KRaftMetadataCache metadataCache;
    private volatile boolean shutdown = true;

    public BrokerServer(SharedServer sharedServer) {
        this.sharedServer = sharedServer;
        this.config = sharedServer.brokerConfig();
        this.process = NodeProcess.ofBroker(sharedServer, config).orElseThrow(
            () -> new TestAbortedException("Apache Kafka's controller is in the JVM of the tests, and a member is not"));
    }

    /** The one that follows the metadata log, for tests that wait until a change has arrived. */
    public SharedServer sharedServer() {
        SharedServer following = observer;
        return following == null ? sharedServer : following;
    }

    @Override
    public synchronized void startup() {
        if (!shutdown)
            return;
        try {
            process.start();
            observe(process.home());
            shutdown = false;
            List<String> listeners = CollectionConverters.asJava(config.dataPlaneListeners()).stream().map(Endpoint::listener).toList();
            process.await(listeners, () -> metadataCache.hasAliveBroker(config.nodeId()));
        } catch (Exception e) {
            shutdown();
            throw e instanceof RuntimeException ? (RuntimeException) e : new RuntimeException(e);
        }
    }

    /** Follow the metadata log in this JVM, with another node id and directory than those of the member. */
    private void observe(Path home) throws Exception {
        Path directory = Files.createDirectories(home.resolve("observed"));
        int id = config.nodeId() + 100_000;
        List<String> known = new ArrayList<>(Files.readAllLines(Path.of(config.logDirs().get(0), "meta.properties")));
        known.replaceAll(line -> line.startsWith("directory.id=") ? "directory.id=" + Uuid.randomUuid() : line);
        known.replaceAll(line -> line.startsWith("node.id=") ? "node.id=" + id : line);
        Files.write(directory.resolve("meta.properties"), known);
        Map<String, Object> keys = new HashMap<>(config.originals());
        keys.put("node.id", Integer.toString(id));
        keys.put("process.roles", "broker");
        keys.put("listeners", String.join(",", CollectionConverters.asJava(config.dataPlaneListeners()).stream().map(each -> each.listener() + "://localhost:0").toList()));
        keys.remove("broker.id");
        keys.put("log.dirs", directory.toString());
        keys.put("metadata.log.dir", directory.toString());
        KafkaConfig observing = new KafkaConfig(keys, false);
        MetaPropertiesEnsemble ensemble = new MetaPropertiesEnsemble.Loader().addMetadataLogDir(directory.toString()).addLogDirs(List.of(directory.toString())).load();
        observer = new SharedServer(
            observing, ensemble, Time.SYSTEM, new Metrics(), sharedServer.controllerQuorumVotersFuture(), sharedServer.bootstrapServers(),
            sharedServer.faultHandlerFactory(), ServerSocketFactory.INSTANCE);
        observer.startForBroker();
        metadataCache = new KRaftMetadataCache(config.nodeId(), () -> observer.raftManager().client().kraftVersion());
        observer.loader().installPublishers(List.of(new kafka.server.metadata.KRaftMetadataCachePublisher(metadataCache))).get();
    }

    @Override
    public synchronized void shutdown(Duration timeout) {
        shutdown = true;
        process.stop(timeout);
        if (observer != null)
            observer.stopForBroker();
        observer = null;
    }

    @Override
    public void shutdown() {
        shutdown(Duration.ofMinutes(5));
    }

    @Override
    public void awaitShutdown() {
        process.awaitEnd();
    }

    @Override
    public boolean isShutdown() {
        return shutdown;
    }

    @Override
    public BrokerState brokerState() {
        if (!shutdown && process.isAlive())
            return BrokerState.RUNNING;
        return shutdown && process.hasStarted() ? BrokerState.SHUTTING_DOWN : BrokerState.NOT_RUNNING;
    }

    @Override
    public int boundPort(ListenerName listenerName) {
        return process.boundPort(listenerName);
    }

    /** An object of the JVM that tests look at to see whether a change has arrived: it knows nothing. */
    static <T> T nothing(Class<T> type) {
        Answer<Object> empty = call -> {
            Class<?> returned = call.getMethod().getReturnType();
            if (returned == Option.class)
                return Option.empty();
            return Mockito.RETURNS_DEFAULTS.answer(call);
        };
        return Mockito.mock(type, Mockito.withSettings().defaultAnswer(empty).stubOnly());
    }

    @Override
    public KafkaApis dataPlaneRequestProcessor() {
        KafkaApis apis = nothing(KafkaApis.class);
        Mockito.when(apis.isConsumerGroupProtocolEnabled()).thenReturn(true);
        Mockito.when(apis.metadataCache()).thenReturn(metadataCache);
        Mockito.when(apis.clusterId()).thenReturn(clusterId());
        return apis;
    }

    /** Tests create the topic of groups with the settings of the coordinator. */
    @Override
    public GroupCoordinator groupCoordinator() {
        Properties settings = new Properties();
        settings.put("cleanup.policy", "compact");
        settings.put("compression.type", "producer");
        settings.put("segment.bytes", Integer.toString(config.groupCoordinatorConfig().offsetsTopicSegmentBytes()));
        GroupCoordinator coordinator = nothing(GroupCoordinator.class);
        Mockito.when(coordinator.groupMetadataTopicConfigs()).thenReturn(settings);
        return coordinator;
    }

    @Override
    public ReplicaManager replicaManager() {
        ReplicaManager manager = nothing(ReplicaManager.class);
        Mockito.when(manager.metadataCache()).thenReturn(metadataCache);
        Mockito.when(manager.onlinePartition(Mockito.any())).thenAnswer(call -> replica(call.getArgument(0)));
        Mockito.when(manager.localLog(Mockito.any())).thenAnswer(call -> log(call.getArgument(0)));
        return manager;
    }

    /** A replica of this broker; its leader has a log. */
    private Option<Partition> replica(TopicPartition place) {
        Optional<LeaderAndIsr> known = metadataCache.getLeaderAndIsr(place.topic(), place.partition());
        if (shutdown || known.isEmpty() || log(place).isEmpty())
            return Option.empty();
        boolean leads = known.get().leader() == config.nodeId();
        Option<UnifiedLog> log = leads ? log(place) : Option.empty();
        Partition partition = nothing(Partition.class);
        Mockito.when(partition.leaderLogIfLocal()).thenReturn(log);
        Mockito.when(partition.isLeader()).thenReturn(leads);
        Mockito.when(partition.leaderIdIfLocal()).thenReturn(leads ? Option.apply(config.nodeId()) : Option.empty());
        return Option.apply(partition);
    }

    @Override
    public LogManager logManager() {
        LogManager manager = nothing(LogManager.class);
        Mockito.when(manager.liveLogDirs()).thenReturn(CollectionConverters.asScala(config.logDirs().stream().map(File::new).toList()));
        Mockito.when(manager.getLog(Mockito.any(), Mockito.anyBoolean())).thenAnswer(call -> found(call.getArgument(0), call.getArgument(1)));
        return manager;
    }

    private Option<UnifiedLog> log(TopicPartition place) {
        return found(place, false);
    }

    private Option<UnifiedLog> found(TopicPartition place, boolean isFuture) {
        Optional<UnifiedLog> log = ReplicaFiles.find(config.logDirs(), place, isFuture);
        log.ifPresent(each -> new ReplicaRequests(() -> boundPort(config.interBrokerListenerName())).complete(each, place));
        return log.map(Option::apply).orElse(Option.empty());
    }

    @Override
    public BrokerLifecycleManager lifecycleManager() {
        BrokerLifecycleManager manager = nothing(BrokerLifecycleManager.class);
        Mockito.when(manager.initialUnfenceFuture()).thenReturn(CompletableFuture.completedFuture(null));
        return manager;
    }

    @Override
    public SocketServer socketServer() {
        SocketServer server = nothing(SocketServer.class);
        Mockito.when(server.boundPort(Mockito.any())).thenAnswer(call -> boundPort(call.getArgument(0)));
        Mockito.when(server.config()).thenReturn(config);
        return server;
    }

    @Override
    public KafkaConfig config() {
        return config;
    }

    @Override
    public String clusterId() {
        return sharedServer.clusterId();
    }

    @Override
    public KRaftMetadataCache metadataCache() {
        return metadataCache;
    }

    @Override
    public Metrics metrics() {
        return sharedServer.metrics();
    }

    @Override
    public KafkaYammerMetrics kafkaYammerMetrics() {
        return KafkaYammerMetrics.INSTANCE;
    }
}
