import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Sends COUNT records and prints where each went, as its callback learns it: "offset:N;partition:P".
 *
 * Arguments: BOOTSTRAP TOPIC COUNT KEYS [PROPERTY=VALUE ...]. The keys are 0 to KEYS-1 in turn; with 0 KEYS there are none.
 */
public final class SendWithCallback {
    private SendWithCallback() {
    }

    public static void main(String[] args) {
        int count = Integer.parseInt(args[2]);
        int keys = Integer.parseInt(args[3]);
        Properties properties = Arguments.properties(args, 4);
        properties.put(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        properties.put(ProducerConfig.KEY_SERIALIZER_CLASS_CONFIG, StringSerializer.class.getName());
        properties.put(ProducerConfig.VALUE_SERIALIZER_CLASS_CONFIG, StringSerializer.class.getName());
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(properties)) {
            for (int i = 0; i < count; i++) {
                String key = keys == 0 ? null : Integer.toString(i % keys);
                producer.send(new ProducerRecord<>(args[1], key, "value-" + i), (metadata, exception) -> {
                    if (exception == null)
                        System.out.println("offset:" + metadata.offset() + ";partition:" + metadata.partition());
                    else
                        System.out.println(exception.getClass().getSimpleName());
                });
            }
            producer.flush();
        }
    }
}
