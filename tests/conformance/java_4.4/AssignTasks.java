import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;

/** Assigns tasks as Apache Kafka's broker does: a streams group a line on stdin, its targets a line on stdout. */
public final class AssignTasks {
    /** A member of the group with its tasks, and the offsets that it reported. */
    record Member(
        String process, Map<String, Set<Integer>> active, Map<String, Set<Integer>> standby,
        Map<String, Map<Integer, Long>> offsets
    ) { }

    /** A subtopology: its number of tasks, and whether these have state. */
    record Subtopology(int tasks, boolean isStateful) { }

    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        BufferedReader groups = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = groups.readLine(); line != null; line = groups.readLine())
            System.out.println(JSON.writeValueAsString(assign(JSON.readTree(line))));
    }

    private static Map<String, List<Map<String, Set<Integer>>>> assign(JsonNode group) {
        Map<String, Member> members = new HashMap<>();
        for (JsonNode member : group.get("members"))
            members.put(member.get("id").asText(), new Member(
                member.get("process").asText(), tasks(member.get("active")), tasks(member.get("standby")),
                offsets(member.get("offsets"))));
        Map<String, Subtopology> subtopologies = new LinkedHashMap<>();
        group.get("subtopologies").fields().forEachRemaining(each -> subtopologies.put(
            each.getKey(), new Subtopology(each.getValue().get(0).asInt(), each.getValue().get(1).asBoolean())));
        Map<String, List<Map<String, Set<Integer>>>> targets = new TreeMap<>();
        Assignor.assign(members, subtopologies, group.get("standbys").asInt()).forEach((id, target) ->
            targets.put(id, target.stream().map(AssignTasks::sorted).toList()));
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

    private static Map<String, Map<Integer, Long>> offsets(JsonNode offsets) {
        Map<String, Map<Integer, Long>> found = new HashMap<>();
        offsets.fields().forEachRemaining(each -> each.getValue().fields().forEachRemaining(offset ->
            found.computeIfAbsent(each.getKey(), name -> new HashMap<>())
                .put(Integer.valueOf(offset.getKey()), offset.getValue().asLong())));
        return found;
    }

    private static Map<String, Set<Integer>> sorted(Map<String, Set<Integer>> tasks) {
        Map<String, Set<Integer>> found = new TreeMap<>();
        tasks.forEach((name, partitions) -> found.put(name, new TreeSet<>(partitions)));
        return found;
    }
}
