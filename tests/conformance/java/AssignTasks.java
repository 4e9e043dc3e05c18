import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.coordinator.group.streams.assignor.AssignmentMemberSpec;
import org.apache.kafka.coordinator.group.streams.assignor.GroupSpecImpl;
import org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor;
import org.apache.kafka.coordinator.group.streams.assignor.TopologyDescriber;

/** Assigns tasks as Apache Kafka's broker does: a streams group a line on stdin, its targets a line on stdout. */
public final class AssignTasks {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        BufferedReader groups = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = groups.readLine(); line != null; line = groups.readLine())
            System.out.println(JSON.writeValueAsString(assign(JSON.readTree(line))));
    }

    private static Map<String, List<Map<String, Set<Integer>>>> assign(JsonNode group) {
        Map<String, AssignmentMemberSpec> members = new HashMap<>();
        for (JsonNode member : group.get("members"))
            members.put(member.get("id").asText(), new AssignmentMemberSpec(
                Optional.empty(), Optional.empty(), tasks(member.get("active")), tasks(member.get("standby")), Map.of(),
                member.get("process").asText(), Map.of(), Map.of(), Map.of()));
        JsonNode subtopologies = group.get("subtopologies");
        TopologyDescriber topology = new TopologyDescriber() {
            @Override
            public List<String> subtopologies() {
                List<String> names = new ArrayList<>();
                subtopologies.fieldNames().forEachRemaining(names::add);
                return names;
            }

            @Override
            public int maxNumInputPartitions(String name) {
                return subtopologies.get(name).get(0).asInt();
            }

            @Override
            public boolean isStateful(String name) {
                return subtopologies.get(name).get(1).asBoolean();
            }
        };
        Map<String, String> configs = Map.of("num.standby.replicas", group.get("standbys").asText());
        Map<String, List<Map<String, Set<Integer>>>> targets = new TreeMap<>();
        new StickyTaskAssignor().assign(new GroupSpecImpl(members, configs), topology).members().forEach((id, target) ->
            targets.put(id, List.of(sorted(target.activeTasks()), sorted(target.standbyTasks()))));
        return targets;
    }

    private static Map<String, Set<Integer>> tasks(JsonNode tasks) {
        Map<String, Set<Integer>> found = new HashMap<>();
        tasks.fields().forEachRemaining(each -> {
            Set<Integer> partitions = new HashSet<>();
            each.getValue().forEach(partition -> partitions.add(partition.asInt()));
            found.put(each.getKey(), partitions);
        });
        return found;
    }

    private static Map<String, Set<Integer>> sorted(Map<String, Set<Integer>> tasks) {
        Map<String, Set<Integer>> found = new TreeMap<>();
        tasks.forEach((name, partitions) -> found.put(name, new TreeSet<>(partitions)));
        return found;
    }
}
