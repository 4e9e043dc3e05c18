package kafka.server;

import com.typesafe.scalalogging.Logger;
import org.apache.kafka.common.internals.Plugin;
import org.apache.kafka.common.security.token.delegation.internals.DelegationTokenCache;
import org.apache.kafka.security.CredentialProvider;
import org.apache.kafka.server.authorizer.Authorizer;
import org.apache.kafka.server.common.NodeToControllerChannelManager;
import org.apache.kafka.server.log.remote.storage.RemoteLogManager;
import org.apache.kafka.server.metrics.KafkaMetricsGroup;
import org.apache.kafka.server.metrics.LinuxIoMetricsCollector;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;
import org.slf4j.LoggerFactory;
import scala.Option;

/** The parts of a broker that tests in its JVM may look at, and that a broker in a process of its own lacks. */
abstract class EmptyBroker implements KafkaBroker {
    private KafkaMetricsGroup metricsGroup;
    private LinuxIoMetricsCollector ioMetrics;
    private String ident = "";

    @Override
    public Option<Plugin<Authorizer>> authorizerPlugin() {
        return Option.empty();
    }

    @Override
    public Option<RemoteLogManager> remoteLogManagerOpt() {
        return Option.empty();
    }

    @Override
    public KafkaRequestHandlerPool dataPlaneRequestHandlerPool() {
        return null;
    }

    @Override
    public Scheduler kafkaScheduler() {
        return null;
    }

    @Override
    public LogDirFailureChannel logDirFailureChannel() {
        return null;
    }

    @Override
    public QuotaFactory.QuotaManagers quotaManagers() {
        return null;
    }

    @Override
    public BrokerTopicStats brokerTopicStats() {
        return null;
    }

    @Override
    public CredentialProvider credentialProvider() {
        return null;
    }

    @Override
    public NodeToControllerChannelManager clientToControllerChannelManager() {
        return null;
    }

    @Override
    public DelegationTokenCache tokenCache() {
        return null;
    }

    @Override
    public int NumFetchSessionCacheShards() {
        return 8;
    }

    @Override
    public KafkaMetricsGroup kafka$server$KafkaBroker$$metricsGroup() {
        return metricsGroup;
    }

    @Override
    public LinuxIoMetricsCollector kafka$server$KafkaBroker$$linuxIoMetricsCollector() {
        return ioMetrics;
    }

    @Override
    public void kafka$server$KafkaBroker$_setter_$NumFetchSessionCacheShards_$eq(int count) {
    }

    @Override
    public void kafka$server$KafkaBroker$_setter_$kafka$server$KafkaBroker$$metricsGroup_$eq(KafkaMetricsGroup group) {
        metricsGroup = group;
    }

    @Override
    public void kafka$server$KafkaBroker$_setter_$kafka$server$KafkaBroker$$linuxIoMetricsCollector_$eq(LinuxIoMetricsCollector collector) {
        ioMetrics = collector;
    }

    @Override
    public Logger logger() {
        return Logger.apply(LoggerFactory.getLogger(BrokerServer.class));
    }

    @Override
    public String logIdent() {
        return ident;
    }

    @Override
    public void logIdent_$eq(String value) {
        ident = value;
    }
}
