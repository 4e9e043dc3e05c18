import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * What tests/fault/transfer_worker.py does, by Kafka's own client: Transfer BOOTSTRAP INPUT OUTPUT ID. It ends with 3
 * where it cannot go on.
 */
public final class Transfer {
    private static final int CANNOT_GO_ON = 3;

    private Transfer() {
    }

    public static void main(String[] args) {
        try {
            move(args[0], args[1], args[2], args[3]);
        } catch (KafkaException error) {
            System.err.println(args[3] + " ends: " + error);
            Runtime.getRuntime().halt(CANNOT_GO_ON);
        }
    }

    private static void move(String bootstrap, String source, String target, String id) {
        Random chance = new Random(id.hashCode());
        Properties producing = new Properties();
        producing.put(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        producing.put(ProducerConfig.TRANSACTIONAL_ID_CONFIG, id);
        producing.put(ProducerConfig.TRANSACTION_TIMEOUT_CONFIG, 10_000);
        producing.put(ProducerConfig.MAX_BLOCK_MS_CONFIG, 15_000);
        Properties consuming = new Properties();
        consuming.put(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        consuming.put(ConsumerConfig.GROUP_ID_CONFIG, source);
        consuming.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        consuming.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, false);
        consuming.put(ConsumerConfig.ISOLATION_LEVEL_CONFIG, "read_committed");
        consuming.put(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG, 6_000);
        consuming.put(ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG, 300);
        consuming.put(ConsumerConfig.MAX_POLL_RECORDS_CONFIG, 7);
        KafkaProducer<String, String> producer =
            new KafkaProducer<>(producing, new StringSerializer(), new StringSerializer());
        KafkaConsumer<String, String> consumer =
            new KafkaConsumer<>(consuming, new StringDeserializer(), new StringDeserializer());
        producer.initTransactions();
        consumer.subscribe(List.of(source));
        while (true) {
            ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(200));
            if (records.isEmpty())
                continue;
            try {
                producer.beginTransaction();
                Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                for (ConsumerRecord<String, String> record : records) {
                    producer.send(new ProducerRecord<>(target, record.partition(), null, record.value()));
                    offsets.put(new TopicPartition(source, record.partition()), new OffsetAndMetadata(record.offset() + 1));
                }
                producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
                if (chance.nextDouble() > 0.2) {
                    commit(producer);
                    continue;
                }
            } catch (KafkaException error) {
                System.err.println(id + " aborts: " + error);
            }
            producer.abortTransaction();
            consumer.committed(consumer.assignment()).forEach((place, offset) ->
                consumer.seek(place, offset == null ? 0 : offset.offset()));
        }
    }

    /** A commit that takes too long is under way: only asking again tells its end. */
    private static void commit(KafkaProducer<String, String> producer) {
        while (true) {
            try {
                producer.commitTransaction();
                return;
            } catch (TimeoutException late) {
                System.err.println("again: " + late);
            }
        }
    }
}
