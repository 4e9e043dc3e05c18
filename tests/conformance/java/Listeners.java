import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Properties;
import kafka.server.KafkaConfig;

/** Whether a broker's properties, an object of JSON a line on stdin, are accepted: "", or the reason, a line each on stdout. */
public final class Listeners {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        BufferedReader asked = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = asked.readLine(); line != null; line = asked.readLine()) {
            Properties properties = new Properties();
            JSON.readTree(line).fields().forEachRemaining(each -> properties.put(each.getKey(), each.getValue().asText()));
            System.out.println(JSON.writeValueAsString(refusal(properties)));
        }
    }

    private static String refusal(Properties properties) {
        try {
            KafkaConfig.fromProps(properties);
            return "";
        } catch (RuntimeException error) {
            return String.valueOf(error.getMessage());
        }
    }
}
