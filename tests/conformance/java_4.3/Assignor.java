import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.coordinator.group.streams.assignor.AssignmentMemberSpec;
import org.apache.kafka.coordinator.group.streams.assignor.GroupSpecImpl;
import org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor;
import org.apache.kafka.coordinator.group.streams.assignor.TopologyDescriber;

/** The assignor of streams groups of Apache Kafka 4.3. */
final class Assignor {
    /** Returns the active and the standby tasks of each member. */
    static Map<String, List<Map<String, Set<Integer>>>> assign(
        Map<String, AssignTasks.Member> members, Map<String, AssignTasks.Subtopology> subtopologies, int standbys
    ) {
        Map<String, AssignmentMemberSpec> specs = new HashMap<>();
        members.forEach((id, member) -> specs.put(id, new AssignmentMemberSpec(
            Optional.empty(), Optional.empty(), member.active(), member.standby(), Map.of(), member.process(), Map.of(),
            Map.of(), Map.of())));
        TopologyDescriber topology = new TopologyDescriber() {
            @Override
            public List<String> subtopologies() {
                return new ArrayList<>(subtopologies.keySet());
            }

            @Override
            public int maxNumInputPartitions(String name) {
                return subtopologies.get(name).tasks();
            }

            @Override
            public boolean isStateful(String name) {
                return subtopologies.get(name).isStateful();
            }
        };
        Map<String, String> configs = Map.of("num.standby.replicas", String.valueOf(standbys));
        Map<String, List<Map<String, Set<Integer>>>> targets = new HashMap<>();
        new StickyTaskAssignor().assign(new GroupSpecImpl(specs, configs), topology).members()
            .forEach((id, target) -> targets.put(id, List.of(target.activeTasks(), target.standbyTasks())));
        return targets;
    }
}
