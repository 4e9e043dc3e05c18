import java.util.Collections;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * Written for clients from 0.9 on: sends records of each codec to a topic, then reads all of it as a member of a group,
 * prints each as "partition:offset:key:value" and commits.
 *
 * Arguments: BOOTSTRAP TOPIC GROUP COUNT CODEC...: COUNT records are sent with each codec.
 */
public final class OldClient {
    private OldClient() {
    }

    public static void main(String[] args) throws Exception {
        int count = Integer.parseInt(args[3]);
        int codecs = args.length - 4;
        for (int codec = 0; codec < codecs; codec++) {
            try (KafkaProducer<String, String> producer = new KafkaProducer<>(producerProperties(args[0], args[4 + codec]))) {
                for (int i = 0; i < count; i++)
                    producer.send(new ProducerRecord<>(args[1], 0, "key-" + i, args[4 + codec] + "-" + i));
                producer.flush();
            }
        }
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(consumerProperties(args[0], args[2]))) {
            consumer.subscribe(Collections.singletonList(args[1]));
            for (int seen = 0; seen < count * codecs;) {
                for (ConsumerRecord<String, String> record : consumer.poll(1000)) {
                    System.out.println(record.partition() + ":" + record.offset() + ":" + record.key() + ":" + record.value());
                    seen++;
                }
            }
            consumer.commitSync();
        }
    }

    private static Properties producerProperties(String bootstrap, String codec) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        properties.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        properties.put("compression.type", codec);
        properties.put("linger.ms", "5");
        properties.put("acks", "all");
        return properties;
    }

    private static Properties consumerProperties(String bootstrap, String group) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("group.id", group);
        properties.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        properties.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        properties.put("auto.offset.reset", "earliest");
        properties.put("enable.auto.commit", "false");
        return properties;
    }
}
