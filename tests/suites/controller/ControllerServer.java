package kafka.server;

import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import kafka.network.SocketServer;
import kafka.raft.KafkaRaftManager;
import org.apache.kafka.common.Endpoint;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.internals.Plugin;
import org.apache.kafka.controller.Controller;
import org.apache.kafka.metadata.KafkaConfigSchema;
import org.apache.kafka.metadata.bootstrap.BootstrapDirectory;
import org.apache.kafka.metadata.bootstrap.BootstrapMetadata;
import org.apache.kafka.raft.LogOffsetMetadata;
import org.apache.kafka.raft.RaftLog;
import org.apache.kafka.server.authorizer.Authorizer;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.mockito.Mockito;
import org.opentest4j.TestAbortedException;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/** pybroker's controller in the place of Apache Kafka's: a process of its own, alone in its quorum. */
public class ControllerServer {
    private static final TopicPartition METADATA = new TopicPartition("__cluster_metadata", 0);

    private final SharedServer sharedServer;
    private final KafkaConfig config;
    private final BootstrapMetadata bootstrapMetadata;
    private final NodeProcess process;
    private final CompletableFuture<Integer> firstBoundPort = new CompletableFuture<>();
    private boolean running;

    public ControllerServer(SharedServer sharedServer, KafkaConfigSchema configSchema, BootstrapMetadata bootstrapMetadata) {
        this.sharedServer = sharedServer;
        this.config = sharedServer.controllerConfig();
        this.bootstrapMetadata = bootstrapMetadata;
        if (Math.max(config.quorumConfig().voters().size(), config.quorumConfig().bootstrapServers().size()) > 1)
            throw new TestAbortedException("pybroker's controller is alone in its quorum");
        this.process = NodeProcess.ofController(sharedServer, config, this::writeBootstrap);
    }

    public synchronized void startup() {
        if (running)
            return;
        try {
            firstBoundPort.complete(process.bind());
            process.start();
            running = true;
            process.await(CollectionConverters.asJava(config.controllerListeners()).stream().map(Endpoint::listener).toList(), () -> true);
        } catch (Exception e) {
            shutdown();
            throw e instanceof RuntimeException ? (RuntimeException) e : new RuntimeException(e);
        }
    }

    /** Write the records that the test gives its controller: a harness may have formatted the directory with others. */
    private void writeBootstrap() throws IOException {
        try {
            new BootstrapDirectory(config.metadataLogDir()).writeBinaryFile(bootstrapMetadata);
        } catch (Exception e) {
            throw new IOException(e);
        }
    }

    public synchronized void shutdown() {
        running = false;
        process.stop(Duration.ofMinutes(1));
    }

    public void awaitShutdown() {
        process.awaitEnd();
    }

    public CompletableFuture<Integer> socketServerFirstBoundPortFuture() {
        return firstBoundPort;
    }

    public SharedServer sharedServer() {
        return sharedServer;
    }

    public KafkaConfig config() {
        return config;
    }

    public String clusterId() {
        return sharedServer.clusterId();
    }

    public BootstrapMetadata bootstrapMetadata() {
        return bootstrapMetadata;
    }

    /** The authorizer is in another process. */
    public Option<Plugin<Authorizer>> authorizerPlugin() {
        return Option.empty();
    }

    public SocketServer socketServer() {
        SocketServer server = BrokerServer.nothing(SocketServer.class);
        Mockito.when(server.boundPort(Mockito.any())).thenAnswer(call -> process.boundPort(call.getArgument(0)));
        Mockito.when(server.config()).thenReturn(config);
        return server;
    }

    /** Each broker is in the metadata before its start ends, so nothing is left to wait for. */
    public Controller controller() {
        Controller controller = BrokerServer.nothing(Controller.class);
        Mockito.when(controller.isActive()).thenReturn(true);
        Mockito.when(controller.waitForReadyBrokers(Mockito.anyInt())).thenReturn(CompletableFuture.completedFuture(null));
        return controller;
    }

    /** The end of the metadata log, read from its file: tests wait until brokers have it. */
    public KafkaRaftManager<ApiMessageAndVersion> raftManager() {
        RaftLog log = BrokerServer.nothing(RaftLog.class);
        Mockito.when(log.endOffset()).thenAnswer(call -> new LogOffsetMetadata(
            ReplicaFiles.find(List.of(config.metadataLogDir()), METADATA, false).orElseThrow().logEndOffset()));
        @SuppressWarnings("unchecked")
        KafkaRaftManager<ApiMessageAndVersion> manager = BrokerServer.nothing(KafkaRaftManager.class);
        Mockito.when(manager.raftLog()).thenReturn(log);
        return manager;
    }
}
