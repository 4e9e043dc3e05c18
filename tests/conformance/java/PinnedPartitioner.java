import java.util.Map;
import org.apache.kafka.clients.producer.Partitioner;
import org.apache.kafka.common.Cluster;

/** Puts every record into the partition that the producer's property `pinned.partition` names. */
public final class PinnedPartitioner implements Partitioner {
    private int partition;

    @Override
    public void configure(Map<String, ?> properties) {
        partition = Integer.parseInt(properties.get("pinned.partition").toString());
    }

    @Override
    public int partition(String topic, Object key, byte[] keyBytes, Object value, byte[] valueBytes, Cluster cluster) {
        return partition;
    }

    @Override
    public void close() {
    }
}
