package kafka.server;

import java.io.IOException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.function.IntSupplier;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.message.DescribeProducersRequestData;
import org.apache.kafka.common.message.DescribeProducersRequestData.TopicRequest;
import org.apache.kafka.common.message.DescribeProducersResponseData.ProducerState;
import org.apache.kafka.common.message.ListOffsetsRequestData.ListOffsetsPartition;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.requests.DescribeProducersRequest;
import org.apache.kafka.common.requests.DescribeProducersResponse;
import org.apache.kafka.common.requests.ListOffsetsRequest;
import org.apache.kafka.common.requests.ListOffsetsResponse;
import org.apache.kafka.server.IntegrationTestUtils;
import org.apache.kafka.storage.internals.log.ProducerStateEntry;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.mockito.Mockito;

/** What a member answers about its replicas, leader or not, to requests of tools. Its listener has no security. */
final class ReplicaRequests {
    private final IntSupplier port;

    ReplicaRequests(IntSupplier port) {
        this.port = port;
    }

    /** Let the log of a replica know what is not in its files. */
    void complete(UnifiedLog log, TopicPartition place) {
        ProducerStateManager producers = BrokerServer.nothing(ProducerStateManager.class);
        Mockito.when(producers.activeProducers()).thenAnswer(call -> activeProducers(place));
        Mockito.when(log.producerStateManager()).thenReturn(producers);
        Mockito.when(log.logStartOffset()).thenAnswer(call -> logStartOffset(place));
    }

    private long logStartOffset(TopicPartition place) throws IOException {
        ListOffsetsPartition asked = new ListOffsetsPartition().setPartitionIndex(place.partition()).setTimestamp(ListOffsetsRequest.EARLIEST_TIMESTAMP);
        ListOffsetsRequest request = ListOffsetsRequest.Builder
            .forReplica(ApiKeys.LIST_OFFSETS.latestVersion(), ListOffsetsRequest.DEBUGGING_REPLICA_ID)
            .setTargetTimes(ListOffsetsRequest.toListOffsetsTopics(Map.of(place, asked))).build();
        ListOffsetsResponse response = IntegrationTestUtils.connectAndReceive(request, port.getAsInt());
        return response.topics().get(0).partitions().get(0).offset();
    }

    private Map<Long, ProducerStateEntry> activeProducers(TopicPartition place) throws IOException {
        TopicRequest asked = new TopicRequest().setName(place.topic()).setPartitionIndexes(List.of(place.partition()));
        DescribeProducersRequest request = new DescribeProducersRequest.Builder(
            new DescribeProducersRequestData().setTopics(List.of(asked))).build(ApiKeys.DESCRIBE_PRODUCERS.latestVersion());
        DescribeProducersResponse response = IntegrationTestUtils.connectAndReceive(request, port.getAsInt());
        Map<Long, ProducerStateEntry> found = new HashMap<>();
        for (ProducerState each : response.data().topics().get(0).partitions().get(0).activeProducers()) {
            OptionalLong first = each.currentTxnStartOffset() < 0 ? OptionalLong.empty() : OptionalLong.of(each.currentTxnStartOffset());
            found.put(each.producerId(), new ProducerStateEntry(
                each.producerId(), (short) each.producerEpoch(), each.coordinatorEpoch(), each.lastTimestamp(), first));
        }
        return found;
    }
}
