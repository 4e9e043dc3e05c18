import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Writes a record every 100 ms for so many seconds, by PLAIN; prints how many were written, and what went wrong.
 *
 * Stdin: {"bootstrap", "user", "password", "topic", "seconds"}.
 */
public final class KeepWriting {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        JsonNode told = JSON.readTree(System.in);
        Map<String, Object> properties = new HashMap<>();
        properties.put("bootstrap.servers", told.get("bootstrap").asText());
        properties.put("security.protocol", "SASL_PLAINTEXT");
        properties.put("sasl.mechanism", "PLAIN");
        properties.put("sasl.jaas.config", String.format(
            "org.apache.kafka.common.security.plain.PlainLoginModule required username=\"%s\" password=\"%s\";",
            told.get("user").asText(), told.get("password").asText()));
        ObjectNode outcome = JSON.createObjectNode();
        ArrayNode errors = outcome.putArray("errors");
        int written = 0;
        long end = System.nanoTime() + told.get("seconds").asLong() * 1_000_000_000L;
        try (var producer = new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer())) {
            while (System.nanoTime() < end) {
                try {
                    producer.send(new ProducerRecord<>(told.get("topic").asText(), "value")).get();
                    written++;
                } catch (java.util.concurrent.ExecutionException failure) {
                    errors.add(String.valueOf(failure.getCause()));
                }
                Thread.sleep(100);
            }
        }
        System.out.println(JSON.writeValueAsString(outcome.put("written", written)));
    }
}
