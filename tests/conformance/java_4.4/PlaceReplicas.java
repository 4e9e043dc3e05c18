import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.metadata.placement.ClusterDescriber;
import org.apache.kafka.metadata.placement.PartitionAssignment;
import org.apache.kafka.metadata.placement.PlacementSpec;
import org.apache.kafka.metadata.placement.StripedReplicaPlacer;
import org.apache.kafka.metadata.placement.UsableBroker;

/** Places replicas as Apache Kafka's controller does: a cluster a line on stdin, its partitions' brokers on stdout. */
public final class PlaceReplicas {
    private static final ObjectMapper JSON = new ObjectMapper();

    /** Chance that the other side of the comparison can repeat. */
    static final class Sequence extends Random {
        private int state;

        Sequence(int seed) {
            super(0);
            state = seed;
        }

        @Override
        public int nextInt(int bound) {
            state = (int) ((state * 1103515245L + 12345L) & 0x7fffffffL);
            return (state >> 8) % bound;
        }
    }

    /** The brokers of a cluster. */
    record Brokers(List<UsableBroker> all) implements ClusterDescriber {
        @Override
        public Iterator<UsableBroker> usableBrokers() {
            return all.iterator();
        }

        @Override
        public Uuid defaultDir(int brokerId) {
            return Uuid.ONE_UUID;
        }
    }

    public static void main(String[] args) throws Exception {
        BufferedReader clusters = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = clusters.readLine(); line != null; line = clusters.readLine())
            System.out.println(JSON.writeValueAsString(place(JSON.readTree(line))));
    }

    private static List<List<Integer>> place(JsonNode cluster) {
        List<UsableBroker> brokers = new ArrayList<>();
        for (JsonNode broker : cluster.get("brokers")) {
            JsonNode rack = broker.get(1);
            brokers.add(new UsableBroker(
                broker.get(0).asInt(), rack.isNull() ? Optional.empty() : Optional.of(rack.asText()),
                broker.get(2).asBoolean()));
        }
        PlacementSpec spec = new PlacementSpec(
            0, cluster.get("partitions").asInt(), (short) cluster.get("factor").asInt());
        return new StripedReplicaPlacer(new Sequence(cluster.get("seed").asInt())).place(spec, new Brokers(brokers))
            .assignments().stream().map(PartitionAssignment::replicas).toList();
    }
}
