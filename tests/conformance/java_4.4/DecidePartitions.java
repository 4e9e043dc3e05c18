import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metadata.PartitionChangeRecord;
import org.apache.kafka.common.metadata.PartitionChangeRecordJsonConverter;
import org.apache.kafka.controller.PartitionChangeBuilder;
import org.apache.kafka.metadata.LeaderRecoveryState;
import org.apache.kafka.metadata.PartitionRegistration;
import org.apache.kafka.server.common.MetadataVersion;

/** Decides changes of partitions as Apache Kafka's controller does: a case a line on stdin, its record a line on stdout. */
public final class DecidePartitions {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        BufferedReader cases = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = cases.readLine(); line != null; line = cases.readLine())
            System.out.println(JSON.writeValueAsString(decide(JSON.readTree(line))));
    }

    private static JsonNode decide(JsonNode asked) {
        MetadataVersion version = MetadataVersion.fromFeatureLevel((short) asked.get("metadata_version").asInt());
        JsonNode was = asked.get("partition");
        PartitionRegistration partition = new PartitionRegistration.Builder()
            .setReplicas(array(was, "replicas")).setIsr(array(was, "isr")).setLeader(was.get("leader").asInt())
            .setLeaderEpoch(5).setPartitionEpoch(7).setDirectories(directories(was.get("directories")))
            .setRemovingReplicas(array(was, "removing_replicas")).setAddingReplicas(array(was, "adding_replicas"))
            .setElr(array(was, "eligible_leader_replicas")).setLastKnownElr(array(was, "last_known_elr"))
            .setLeaderRecoveryState(LeaderRecoveryState.of((byte) was.get("leader_recovery_state").asInt())).build();
        Set<Integer> active = new HashSet<>(list(asked, "active"));
        PartitionChangeBuilder builder = new PartitionChangeBuilder(
            partition, Uuid.ONE_UUID, 3, active::contains, version, asked.get("min_isr").asInt(),
            asked.get("has_eligible_replicas").asBoolean());
        builder.setDefaultDirProvider(broker -> new Uuid(9, broker));
        builder.setElection(PartitionChangeBuilder.Election.valueOf(asked.get("election").asText()));
        builder.setUncleanShutdownReplicas(list(asked, "lost"));
        if (asked.has("isr")) builder.setTargetIsr(list(asked, "isr"));
        if (asked.has("replicas")) builder.setTargetReplicas(list(asked, "replicas"));
        if (asked.has("removing")) builder.setTargetRemoving(list(asked, "removing"));
        if (asked.has("adding")) builder.setTargetAdding(list(asked, "adding"));
        if (asked.has("recovery_state"))
            builder.setTargetLeaderRecoveryState(LeaderRecoveryState.of((byte) asked.get("recovery_state").asInt()));
        asked.get("directories").fields().forEachRemaining(each ->
            builder.setDirectory(Integer.parseInt(each.getKey()), new Uuid(8, each.getValue().asLong())));
        return builder.build().map(record -> PartitionChangeRecordJsonConverter.write(
            (PartitionChangeRecord) record.message(), record.version())).orElse(JSON.nullNode());
    }

    private static List<Integer> list(JsonNode node, String field) {
        List<Integer> found = new ArrayList<>();
        node.get(field).forEach(each -> found.add(each.asInt()));
        return found;
    }

    private static int[] array(JsonNode node, String field) {
        return list(node, field).stream().mapToInt(Integer::intValue).toArray();
    }

    private static Uuid[] directories(JsonNode numbers) {
        Uuid[] found = new Uuid[numbers.size()];
        for (int i = 0; i < found.length; i++) found[i] = new Uuid(8, numbers.get(i).asLong());
        return found;
    }
}
