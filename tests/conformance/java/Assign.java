import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupTargetAssignmentMemberValue;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/** Computes targets with the assignors of Apache Kafka's broker: a group a line on stdin, its targets a line on stdout. */
public final class Assign {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        BufferedReader groups = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = groups.readLine(); line != null; line = groups.readLine())
            System.out.println(JSON.writeValueAsString(assign(JSON.readTree(line))));
    }

    private static Map<String, Map<String, Set<Integer>>> assign(JsonNode group) {
        Map<Uuid, Integer> counts = new HashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
        for (JsonNode member : group.get("members")) {
            Set<Uuid> reads = new LinkedHashSet<>();
            member.get("topics").fields().forEachRemaining(topic -> {
                reads.add(Uuid.fromString(topic.getKey()));
                counts.put(Uuid.fromString(topic.getKey()), topic.getValue().asInt());
            });
            String id = member.get("id").asText();
            List<ConsumerGroupTargetAssignmentMemberValue.TopicPartition> target = new ArrayList<>();
            member.get("target").fields().forEachRemaining(topic -> {
                List<Integer> partitions = new ArrayList<>();
                topic.getValue().forEach(partition -> {
                    partitions.add(partition.asInt());
                    owners.computeIfAbsent(Uuid.fromString(topic.getKey()), key -> new HashMap<>())
                        .put(partition.asInt(), id);
                });
                target.add(new ConsumerGroupTargetAssignmentMemberValue.TopicPartition()
                    .setTopicId(Uuid.fromString(topic.getKey())).setPartitions(partitions));
            });
            Assignment last = Assignment.fromRecord(
                new ConsumerGroupTargetAssignmentMemberValue().setTopicPartitions(target));
            Optional<String> instance = Optional.ofNullable(member.get("instance").textValue());
            members.put(id, new MemberSubscriptionAndAssignmentImpl(Optional.empty(), instance, reads, last));
        }
        SubscribedTopicDescriber topics = new SubscribedTopicDescriber() {
            @Override
            public int numPartitions(Uuid topic) {
                return counts.getOrDefault(topic, -1);
            }

            @Override
            public Set<String> racksForPartition(Uuid topic, int partition) {
                return Set.of();
            }
        };
        SubscriptionType type = group.get("homogeneous").asBoolean()
            ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        PartitionAssignor assignor = group.get("assignor").asText().equals("range")
            ? new RangeAssignor() : new UniformAssignor();
        Map<String, Map<String, Set<Integer>>> targets = new TreeMap<>();
        assignor.assign(new GroupSpecImpl(members, type, owners), topics).members().forEach((id, assignment) -> {
            Map<String, Set<Integer>> named = new TreeMap<>();
            assignment.partitions().forEach((topic, partitions) -> {
                if (!partitions.isEmpty())
                    named.put(topic.toString(), new TreeSet<>(partitions));
            });
            targets.put(id, named);
        });
        return targets;
    }
}
