package kafka.server;

import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.channels.ServerSocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
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
    private static final long START_MS = 120_000;

    private final SharedServer sharedServer;
    private final KafkaConfig config;
    private final Map<String, Integer> ports = new ConcurrentHashMap<>();
    private volatile SharedServer observer;
    private volatile Process process;
    private volatile KRaftMetadataCache metadataCache;
    private volatile boolean shutdown = true;
    private Path home;

    public BrokerServer(SharedServer sharedServer) {
        this.sharedServer = sharedServer;
        this.config = sharedServer.brokerConfig();
        if (config.processRoles().size() > 1)
            throw new TestAbortedException("a member has no controller in its process");
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
            home = Files.createTempDirectory(Path.of(System.getProperty("suites.home")), "broker-" + config.nodeId() + "-");
            observe();
            start();
            shutdown = false;
            await();
        } catch (Exception e) {
            shutdown();
            throw e instanceof RuntimeException ? (RuntimeException) e : new RuntimeException(e);
        }
    }

    /** Follow the metadata log in this JVM, with another node id and directory than those of the member. */
    private void observe() throws Exception {
        Path directory = Files.createDirectories(home.resolve("observed"));
        int id = config.nodeId() + 100_000;
        List<String> known = new ArrayList<>(Files.readAllLines(Path.of(config.logDirs().get(0), "meta.properties")));
        known.replaceAll(line -> line.startsWith("directory.id=") ? "directory.id=" + Uuid.randomUuid() : line);
        known.replaceAll(line -> line.startsWith("node.id=") ? "node.id=" + id : line);
        Files.write(directory.resolve("meta.properties"), known);
        Map<String, Object> keys = new HashMap<>(config.originals());
        keys.put("node.id", Integer.toString(id));
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

    private void start() throws IOException {
        Map<String, String> lines = new TreeMap<>();
        config.originals().forEach((key, value) -> {
            if (value != null)
                lines.put(key, text(value));
        });
        List<String> listeners = new ArrayList<>();
        for (Endpoint each : CollectionConverters.asJava(config.listeners())) {
            int port = ports.computeIfAbsent(each.listener(), name -> port(name, each.port()));
            String host = each.host() == null ? "" : each.host();
            listeners.add(each.listener() + "://" + host + ":" + port);
        }
        lines.put("listeners", String.join(",", listeners));
        lines.put("process.roles", "broker");
        String voters = lines.get("controller.quorum.voters");
        if (voters != null && voters.contains(":0"))
            lines.put("controller.quorum.voters", String.join(",", boundVoters()));
        lines.put("pybroker.legacy.versions", "false");
        String advertised = lines.get("advertised.listeners");
        if (advertised != null && advertised.contains(":0"))
            lines.remove("advertised.listeners");
        StringBuilder text = new StringBuilder();
        lines.forEach((key, value) -> text.append(key).append('=').append(value.replace("\\", "\\\\").replace("\n", "\\n")).append('\n'));
        Path file = home.resolve("server.properties");
        Files.writeString(file, text);
        ProcessBuilder builder = new ProcessBuilder(System.getProperty("suites.python"), "-m", "pybroker", file.toString());
        String jaas = System.getProperty("java.security.auth.login.config");
        if (jaas != null)
            builder.environment().put("KAFKA_OPTS", "-Djava.security.auth.login.config=" + jaas);
        builder.redirectErrorStream(true).redirectOutput(ProcessBuilder.Redirect.appendTo(home.resolve("output.txt").toFile()));
        process = builder.start();
        Runtime.getRuntime().addShutdownHook(new Thread(process::destroyForcibly));
    }

    /** Return the addresses of controllers whose ports the harness leaves to the system. */
    private List<String> boundVoters() {
        List<String> voters = new ArrayList<>();
        sharedServer.controllerQuorumVotersFuture().join().forEach((id, address) ->
            voters.add(id + "@" + address.getHostString() + ":" + address.getPort()));
        return voters;
    }

    private static String text(Object value) {
        if (value instanceof List<?> list)
            return String.join(",", list.stream().map(String::valueOf).toList());
        if (value instanceof Class<?> type)
            return type.getName();
        if (value instanceof org.apache.kafka.common.config.types.Password password)
            return password.value();
        return value.toString();
    }

    /** Take the port that the harness has chosen for the listener, or any. */
    private int port(String listener, int wanted) {
        if (wanted != 0)
            return wanted;
        try (ServerSocketChannel channel = sharedServer.socketFactory().openServerSocket(listener, new InetSocketAddress("localhost", 0), 50, 65536)) {
            return channel.socket().getLocalPort();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private void await() throws Exception {
        long end = System.currentTimeMillis() + START_MS;
        while (!(metadataCache.hasAliveBroker(config.nodeId()) && listening())) {
            if (!process.isAlive())
                throw new org.apache.kafka.common.KafkaException("the broker ended by itself: " + Files.readString(home.resolve("output.txt")));
            if (System.currentTimeMillis() > end)
                throw new RuntimeException("the broker did not start in time: " + Files.readString(home.resolve("output.txt")));
            Thread.sleep(20);
        }
    }

    private boolean listening() {
        for (int port : ports.values()) {
            try (Socket socket = new Socket("localhost", port)) {
                // it answers
            } catch (IOException e) {
                return false;
            }
        }
        return true;
    }

    @Override
    public synchronized void shutdown(Duration timeout) {
        shutdown = true;
        try {
            if (process != null) {
                process.destroy();
                if (!process.waitFor(timeout.toMillis(), TimeUnit.MILLISECONDS)) {
                    process.destroyForcibly();
                    process.waitFor();
                }
            }
        } catch (InterruptedException e) {
            process.destroyForcibly();
            Thread.currentThread().interrupt();
        } finally {
            if (observer != null)
                observer.stopForBroker();
            observer = null;
        }
    }

    @Override
    public void shutdown() {
        shutdown(Duration.ofMinutes(5));
    }

    @Override
    public void awaitShutdown() {
        try {
            process.waitFor();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    @Override
    public boolean isShutdown() {
        return shutdown;
    }

    @Override
    public BrokerState brokerState() {
        if (!shutdown && process.isAlive())
            return BrokerState.RUNNING;
        return shutdown && process != null ? BrokerState.SHUTTING_DOWN : BrokerState.NOT_RUNNING;
    }

    @Override
    public int boundPort(ListenerName listenerName) {
        return ports.getOrDefault(listenerName.value(), -1);
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
        return ReplicaFiles.find(config.logDirs(), place, isFuture).map(Option::apply).orElse(Option.empty());
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
