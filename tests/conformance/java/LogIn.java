import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;

/** Logs in once for each of the attempts, a JSON array of clients' properties on stdin; prints what became of each. */
public final class LogIn {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        ArrayNode outcomes = JSON.createArrayNode();
        for (JsonNode attempt : JSON.readTree(System.in)) {
            Map<String, Object> properties = new HashMap<>();
            attempt.fields().forEachRemaining(each -> properties.put(each.getKey(), each.getValue().asText()));
            String error = "";
            try (Admin admin = Admin.create(properties)) {
                admin.describeCluster().nodes().get();
            } catch (ExecutionException failure) {
                error = String.valueOf(failure.getCause());
            }
            outcomes.addObject().put("in", error.isEmpty()).put("error", error);
        }
        System.out.println(JSON.writeValueAsString(outcomes));
    }
}
