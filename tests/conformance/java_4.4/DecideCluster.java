package org.apache.kafka.controller;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Random;
import org.apache.kafka.common.message.AlterPartitionReassignmentsRequestData;
import org.apache.kafka.common.message.AlterPartitionRequestData;
import org.apache.kafka.common.message.AssignReplicasToDirsRequestData;
import org.apache.kafka.common.message.BrokerHeartbeatRequestData;
import org.apache.kafka.common.message.BrokerRegistrationRequestData;
import org.apache.kafka.common.message.ElectLeadersRequestData;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.message.UnregisterBrokerRequestData;
import org.apache.kafka.common.metadata.BrokerRegistrationChangeRecord;
import org.apache.kafka.common.metadata.ConfigRecord;
import org.apache.kafka.common.metadata.FeatureLevelRecord;
import org.apache.kafka.common.metadata.PartitionChangeRecord;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.RegisterBrokerRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.common.metadata.UnregisterBrokerRecord;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.internals.LogContext;
import org.apache.kafka.controller.metrics.QuorumControllerMetrics;
import org.apache.kafka.metadata.BrokerHeartbeatReply;
import org.apache.kafka.metadata.BrokerRegistrationReply;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.metadata.placement.StripedReplicaPlacer;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.timeline.SnapshotRegistry;

/**
 * Runs the managers of Apache Kafka's active controller: a history a line on stdin, and on stdout the records and the
 * answer of each of its steps. A step is a request, records that are only replayed, or the end of a broker's session.
 */
public final class DecideCluster {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int SESSION_MS = 9000;

    private long nowMs = 0;
    private long nextOffset = 0;
    private final FeatureControlManager features;
    private final ConfigurationControlManager configs;
    private final ClusterControlManager cluster;
    private final ReplicationControlManager replication;

    private final Time time = new Time() {
        @Override
        public long milliseconds() {
            return nowMs;
        }

        @Override
        public long nanoseconds() {
            return nowMs * 1_000_000;
        }

        @Override
        public void sleep(long ms) {
            throw new UnsupportedOperationException();
        }
    };

    public static void main(String[] args) throws Exception {
        BufferedReader histories = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = histories.readLine(); line != null; line = histories.readLine()) {
            JsonNode history = JSON.readTree(line);
            DecideCluster controller = new DecideCluster(history.get("cluster_id").asText());
            List<Map<String, Object>> results = new ArrayList<>();
            for (JsonNode step : history.get("steps")) results.add(controller.take(step));
            System.out.println(JSON.writeValueAsString(results));
        }
    }

    private DecideCluster(String clusterId) {
        LogContext log = new LogContext();
        SnapshotRegistry snapshots = new SnapshotRegistry(log);
        features = new FeatureControlManager.Builder().setSnapshotRegistry(snapshots)
            .setQuorumFeatures(new QuorumFeatures(100, QuorumFeatures.defaultSupportedFeatureMap(true), List.of(100)))
            .build();
        configs = new ConfigurationControlManager.Builder().setSnapshotRegistry(snapshots)
            .setFeatureControl(features).setKafkaConfigSchema(kafka.server.KafkaRaftServer.configSchema())
            .setNodeId(100).build();
        cluster = new ClusterControlManager.Builder().setSnapshotRegistry(snapshots).setClusterId(clusterId)
            .setTime(time).setSessionTimeoutNs(SESSION_MS * 1_000_000L)
            .setReplicaPlacer(new StripedReplicaPlacer(new Random(0))).setFeatureControlManager(features)
            .setBrokerShutdownHandler((broker, clean, records) -> shutDown(broker, clean, records))
            .setMetrics(new QuorumControllerMetrics(Optional.empty(), time, SESSION_MS)).build();
        replication = new ReplicationControlManager.Builder().setSnapshotRegistry(snapshots)
            .setConfigurationControl(configs).setClusterControl(cluster).setFeatureControl(features).build();
        cluster.activate();
    }

    private void shutDown(int broker, boolean clean, List<ApiMessageAndVersion> records) {
        replication.handleBrokerShutdown(broker, clean, records);
    }

    private Map<String, Object> take(JsonNode step) {
        nowMs = step.get("now_ms").asLong();
        List<ApiMessageAndVersion> records = new ArrayList<>();
        Object answer = null;
        if (step.has("records")) {
            for (JsonNode each : step.get("records")) records.add(read(each.asText()));
            replay(records);
            return Map.of();
        }
        try {
            answer = decide(step, records);
        } catch (RuntimeException e) {
            records.clear();
            answer = (int) Errors.forException(e).code();
        }
        replay(records);
        if (step.get("api").asInt() == 63 && answer instanceof List<?> heard && heard.get(3).equals(true))
            cluster.heartbeatManager().maybeUpdateControlledShutdownOffset(step.get("broker").asInt(), nextOffset - 1);
        List<String> written = new ArrayList<>();
        for (ApiMessageAndVersion each : records) written.add(write(each));
        return Map.of("records", written, "answer", answer == null ? List.of() : answer);
    }

    private Object decide(JsonNode step, List<ApiMessageAndVersion> records) {
        short version = (short) step.get("version").asInt();
        ByteBuffer bytes = step.has("body") ? ByteBuffer.wrap(Base64.getDecoder().decode(step.get("body").asText())) : null;
        ByteBufferAccessor body = bytes == null ? null : new ByteBufferAccessor(bytes);
        ControllerRequestContext context = new ControllerRequestContext(
            new RequestHeaderData().setRequestApiVersion(version), KafkaPrincipal.ANONYMOUS, OptionalLong.empty());
        switch (step.get("api").asInt()) {
            case 0: { // sessions that have ended
                ControllerResult<Boolean> result;
                do {
                    result = replication.maybeFenceOneStaleBroker();
                    records.addAll(result.records());
                } while (result.response());
                return List.of();
            }
            case 43: {
                ControllerResult<?> result = replication.electLeaders(new ElectLeadersRequestData(body, version));
                records.addAll(result.records());
                return message((ApiMessage) result.response(), version);
            }
            case 45: {
                ControllerResult<?> result = replication.alterPartitionReassignments(
                    new AlterPartitionReassignmentsRequestData(body, version));
                records.addAll(result.records());
                return message((ApiMessage) result.response(), version);
            }
            case 56: {
                ControllerResult<?> result =
                    replication.alterPartition(context, new AlterPartitionRequestData(body, version));
                records.addAll(result.records());
                return message((ApiMessage) result.response(), version);
            }
            case 62: {
                ControllerResult<BrokerRegistrationReply> result = cluster.registerBroker(
                    new BrokerRegistrationRequestData(body, version), nextOffset,
                    features.finalizedFeatures(Long.MAX_VALUE), version >= 3);
                records.addAll(result.records());
                return List.of(result.response().epoch());
            }
            case 63: {
                BrokerHeartbeatRequestData request = new BrokerHeartbeatRequestData(body, version);
                cluster.trackBrokerHeartbeat(request.brokerId(), request.brokerEpoch());
                ControllerResult<BrokerHeartbeatReply> result = replication.processBrokerHeartbeat(
                    request, cluster.registerBrokerRecordOffset(request.brokerId()).orElse(-1));
                records.addAll(result.records());
                BrokerHeartbeatReply reply = result.response();
                return List.of(reply.isCaughtUp(), reply.isFenced(), reply.shouldShutDown(), reply.inControlledShutdown());
            }
            case 64: {
                ControllerResult<Void> result =
                    replication.unregisterBroker(new UnregisterBrokerRequestData(body, version).brokerId());
                records.addAll(result.records());
                return List.of();
            }
            case 73: {
                ControllerResult<?> result =
                    replication.handleAssignReplicasToDirs(new AssignReplicasToDirsRequestData(body, version));
                records.addAll(result.records());
                return message((ApiMessage) result.response(), version);
            }
            case -1: {
                records.addAll(replication.maybeBalancePartitionLeaders().records());
                return List.of();
            }
            case -2: {
                records.addAll(replication.maybeElectUncleanLeaders().records());
                return List.of();
            }
            default:
                throw new IllegalArgumentException(step.toString());
        }
    }

    private void replay(List<ApiMessageAndVersion> records) {
        for (ApiMessageAndVersion each : records) {
            ApiMessage message = each.message();
            if (message instanceof RegisterBrokerRecord record) cluster.replay(record, nextOffset);
            else if (message instanceof UnregisterBrokerRecord record) cluster.replay(record);
            else if (message instanceof BrokerRegistrationChangeRecord record) cluster.replay(record);
            else if (message instanceof TopicRecord record) replication.replay(record);
            else if (message instanceof PartitionRecord record) replication.replay(record);
            else if (message instanceof PartitionChangeRecord record) replication.replay(record);
            else if (message instanceof FeatureLevelRecord record) features.replay(record);
            else if (message instanceof ConfigRecord record) configs.replay(record);
            else throw new IllegalArgumentException(message.toString());
            nextOffset += 1;
        }
    }

    private static ApiMessageAndVersion read(String text) {
        byte[] bytes = Base64.getDecoder().decode(text);
        return MetadataRecordSerde.INSTANCE.read(new ByteBufferAccessor(ByteBuffer.wrap(bytes)), bytes.length);
    }

    private static String write(ApiMessageAndVersion record) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer bytes = ByteBuffer.allocate(MetadataRecordSerde.INSTANCE.recordSize(record, cache));
        MetadataRecordSerde.INSTANCE.write(record, cache, new ByteBufferAccessor(bytes));
        return Base64.getEncoder().encodeToString(bytes.array());
    }

    private static String message(ApiMessage answer, short version) {
        ByteBuffer bytes = MessageUtil.toByteBufferAccessor(answer, version).buffer();
        byte[] found = new byte[bytes.remaining()];
        bytes.get(found);
        return Base64.getEncoder().encodeToString(found);
    }
}
