import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.coordinator.group.api.streams.assignor.TopologyDescriber;
import org.apache.kafka.coordinator.group.streams.assignor.AssignmentConfigsImpl;
import org.apache.kafka.coordinator.group.streams.assignor.GroupSpecImpl;
import org.apache.kafka.coordinator.group.streams.assignor.MemberMetadataAndStateImpl;
import org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor;

/** The assignor of streams groups of Apache Kafka 4.4. */
final class Assignor {
    /** Returns the active and the standby tasks of each member. */
    static Map<String, List<Map<String, Set<Integer>>>> assign(
        Map<String, AssignTasks.Member> members, Map<String, AssignTasks.Subtopology> subtopologies, int standbys
    ) {
        Map<String, MemberMetadataAndStateImpl> specs = new HashMap<>();
        members.forEach((id, member) -> specs.put(id, new MemberMetadataAndStateImpl(
            Optional.empty(), Optional.empty(), member.process(), Map.of(), member.active(), member.standby(), Map.of(),
            member.offsets(), Map.of())));
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
        new StickyTaskAssignor().assign(new GroupSpecImpl(specs, AssignmentConfigsImpl.fromMap(configs)), topology).members()
            .forEach((id, target) -> targets.put(id, List.of(target.activeTasks(), target.standbyTasks())));
        return targets;
    }
}
