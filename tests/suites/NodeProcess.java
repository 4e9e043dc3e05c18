package kafka.server;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.channels.ServerSocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.apache.kafka.common.Endpoint;
import org.apache.kafka.common.network.ListenerName;
import scala.jdk.javaapi.CollectionConverters;

/** A process of pybroker with the properties that a test gives its node. Its ports stay when it starts again. */
final class NodeProcess {
    private static final long START_MS = 120_000;
    private static final Map<SharedServer, NodeProcess> COMBINED = new ConcurrentHashMap<>();

    private final SharedServer sharedServer;
    private final KafkaConfig config;
    private final String role;
    private final Preparation preparation;
    private final Map<String, Integer> ports = new ConcurrentHashMap<>();
    private volatile Process process;
    private Path home;

    private NodeProcess(SharedServer sharedServer, KafkaConfig config, String role, Preparation preparation) {
        this.sharedServer = sharedServer;
        this.config = config;
        this.role = role;
        this.preparation = preparation;
    }

    /** What must be done before each start, whether the controller or the broker of the node asks for it. */
    interface Preparation {
        void prepare() throws IOException;
    }

    /** Make the process of a controller, which the broker of the same node takes over if there is one. */
    static NodeProcess ofController(SharedServer sharedServer, KafkaConfig config, Preparation preparation) {
        boolean combined = config.processRoles().size() > 1;
        NodeProcess process = new NodeProcess(sharedServer, config, combined ? "broker,controller" : "controller", preparation);
        if (combined)
            COMBINED.put(sharedServer, process);
        return process;
    }

    /** Return the process of a broker: that of its node's controller, if pybroker has that role, too. */
    static Optional<NodeProcess> ofBroker(SharedServer sharedServer, KafkaConfig config) {
        if (config.processRoles().size() > 1)
            return Optional.ofNullable(COMBINED.remove(sharedServer));
        return Optional.of(new NodeProcess(sharedServer, config, "broker", () -> { }));
    }

    /** The folder with the properties and the output of the last start. */
    Path home() {
        return home;
    }

    /** Choose the ports of all listeners. Return the first one. */
    int bind() {
        for (Endpoint each : CollectionConverters.asJava(config.listeners()))
            ports.computeIfAbsent(each.listener(), name -> port(name, each.port()));
        return ports.get(config.listeners().head().listener());
    }

    /** Start, unless it runs: the controller and the broker of a node ask for the same process. */
    synchronized void start() throws IOException {
        if (process != null && process.isAlive())
            return;
        preparation.prepare();
        home = Files.createTempDirectory(Path.of(System.getProperty("suites.home")), role.replace(',', '-') + "-" + config.nodeId() + "-");
        bind();
        Map<String, String> lines = new TreeMap<>();
        config.originals().forEach((key, value) -> {
            if (value != null)
                lines.put(key, text(value));
        });
        List<String> listeners = new ArrayList<>();
        for (Endpoint each : CollectionConverters.asJava(config.listeners())) {
            String host = each.host() == null ? "" : each.host();
            listeners.add(each.listener() + "://" + host + ":" + ports.get(each.listener()));
        }
        lines.put("listeners", String.join(",", listeners));
        lines.put("process.roles", role);
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

    /** Wait until the process listens on these listeners and is ready. */
    void await(Collection<String> listeners, BooleanSupplier ready) throws Exception {
        long end = System.currentTimeMillis() + START_MS;
        while (!(ready.getAsBoolean() && listens(listeners))) {
            if (!process.isAlive())
                throw new org.apache.kafka.common.KafkaException("the node ended by itself: " + output());
            if (System.currentTimeMillis() > end)
                throw new RuntimeException("the node did not start in time: " + output());
            Thread.sleep(20);
        }
    }

    private String output() throws IOException {
        return Files.readString(home.resolve("output.txt"));
    }

    private boolean listens(Collection<String> listeners) {
        for (String listener : listeners) {
            try (Socket socket = new Socket("localhost", ports.get(listener))) {
                // it answers
            } catch (IOException e) {
                return false;
            }
        }
        return true;
    }

    boolean hasStarted() {
        return process != null;
    }

    boolean isAlive() {
        return process.isAlive();
    }

    int boundPort(ListenerName name) {
        return ports.getOrDefault(name.value(), -1);
    }

    /** Stop the process as a user does, and kill it after the timeout. */
    void stop(Duration timeout) {
        COMBINED.remove(sharedServer, this);
        if (process == null)
            return;
        try {
            process.destroy();
            if (!process.waitFor(timeout.toMillis(), TimeUnit.MILLISECONDS)) {
                process.destroyForcibly();
                process.waitFor();
            }
        } catch (InterruptedException e) {
            process.destroyForcibly();
            Thread.currentThread().interrupt();
        }
    }

    void awaitEnd() {
        try {
            process.waitFor();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
