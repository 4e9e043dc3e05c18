import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.KafkaException;

/**
 * Logs in once for each of the attempts, a JSON array of clients' properties on stdin; prints what became of each.
 *
 * The property "jwt" is a bearer token, which a client takes from a file.
 */
public final class LogIn {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String OAUTHBEARER = "org.apache.kafka.sasl.oauthbearer.allowed.";

    public static void main(String[] args) throws Exception {
        ArrayNode outcomes = JSON.createArrayNode();
        Path token = Files.createTempFile("log-in", ".jwt");
        System.setProperty(OAUTHBEARER + "urls", token.toUri().toString());
        System.setProperty(OAUTHBEARER + "files", token.toString());
        try {
            for (JsonNode attempt : JSON.readTree(System.in)) {
                String error = logIn(properties(attempt, token));
                outcomes.addObject().put("in", error.isEmpty()).put("error", error);
            }
        } finally {
            Files.delete(token);
        }
        System.out.println(JSON.writeValueAsString(outcomes));
    }

    private static Map<String, Object> properties(JsonNode attempt, Path token) throws IOException {
        Map<String, Object> properties = new HashMap<>();
        attempt.fields().forEachRemaining(each -> properties.put(each.getKey(), each.getValue().asText()));
        Object jwt = properties.remove("jwt");
        if (jwt != null) {
            Files.writeString(token, (String) jwt);
            properties.put("sasl.oauthbearer.token.endpoint.url", token.toUri().toString());
        }
        return properties;
    }

    private static String logIn(Map<String, Object> properties) throws InterruptedException {
        try (Admin admin = Admin.create(properties)) {
            admin.describeCluster().nodes().get();
            return "";
        } catch (ExecutionException failure) {
            return String.valueOf(failure.getCause());
        } catch (KafkaException refused) {
            return refused + ", " + refused.getCause();
        }
    }
}
