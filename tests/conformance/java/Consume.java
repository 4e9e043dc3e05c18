import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.utils.internals.Exit;

/**
 * Subscribes as a member of a group, prints each record as "partition:offset:key:value", and ends after COUNT records, or
 * when it is told to stop where COUNT is 0.
 *
 * Arguments: BOOTSTRAP TOPIC GROUP COUNT auto|sync|async|none [PROPERTY=VALUE ...]: how it commits.
 */
public final class Consume {
    private Consume() {
    }

    public static void main(String[] args) {
        int count = Integer.parseInt(args[3]);
        String commit = args[4];
        Properties properties = Arguments.properties(args, 5);
        properties.put(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        properties.put(ConsumerConfig.GROUP_ID_CONFIG, args[2]);
        properties.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, commit.equals("auto"));
        properties.put(ConsumerConfig.KEY_DESERIALIZER_CLASS_CONFIG, StringDeserializer.class.getName());
        properties.put(ConsumerConfig.VALUE_DESERIALIZER_CLASS_CONFIG, StringDeserializer.class.getName());
        KafkaConsumer<String, String> consumer = new KafkaConsumer<>(properties);
        Exit.addShutdownHook("stop", consumer::wakeup);
        try (consumer) {
            consumer.subscribe(List.of(args[1]));
            for (int seen = 0; count == 0 || seen < count;) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofSeconds(1));
                for (ConsumerRecord<String, String> record : records)
                    System.out.println(record.partition() + ":" + record.offset() + ":" + record.key() + ":" + record.value());
                seen += records.count();
                if (commit.equals("sync"))
                    consumer.commitSync();
                else if (commit.equals("async"))
                    consumer.commitAsync();
            }
        } catch (WakeupException e) {
            System.out.println("stopped");
        }
    }
}
