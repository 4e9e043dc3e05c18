import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Writes an invoice for each order, exactly once. With kafka-clients and its dependencies in libs/:
 *
 *     java -cp 'libs/*' Orders.java [localhost:9092]
 */
public final class Orders {
    private static final int ORDERS = 6;
    private static final String BOOTSTRAP = System.getenv().getOrDefault("BOOTSTRAP_SERVERS", "localhost:9092");

    public static void main(String[] args) throws Exception {
        String bootstrap = args.length > 0 ? args[0] : BOOTSTRAP;
        sendOrders(bootstrap);
        writeInvoices(bootstrap);
    }

    /** Write some orders, customer and apples, and wait for their acknowledgements. */
    private static void sendOrders(String bootstrap) throws Exception {
        Map<String, Object> config = Map.of("bootstrap.servers", bootstrap);
        try (var producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer())) {
            for (int number = 1; number <= ORDERS; number++) {
                String customer = "customer-" + number % 3;
                producer.send(new ProducerRecord<>("orders", customer, number + " " + 2 * number)).get();
            }
        }
    }

    /**
     * Read orders as a member of a group. A transaction makes an invoice and the commit of its order visible together
     * or not at all.
     */
    private static void writeInvoices(String bootstrap) {
        Map<String, Object> reading = Map.of(
            "bootstrap.servers", bootstrap,
            "group.id", "billing",
            "group.protocol", "consumer",
            "auto.offset.reset", "earliest",
            "enable.auto.commit", false,
            "isolation.level", "read_committed");
        Map<String, Object> writing = Map.of("bootstrap.servers", bootstrap, "transactional.id", "billing-1");
        try (var consumer = new KafkaConsumer<>(reading, new StringDeserializer(), new StringDeserializer());
             var producer = new KafkaProducer<>(writing, new StringSerializer(), new StringSerializer())) {
            producer.initTransactions();
            consumer.subscribe(List.of("orders"));
            int done = 0;
            while (done < ORDERS) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofSeconds(1));
                if (records.isEmpty()) {
                    continue;
                }
                producer.beginTransaction();
                try {
                    Map<TopicPartition, OffsetAndMetadata> positions = new HashMap<>();
                    for (ConsumerRecord<String, String> record : records) {
                        String[] order = record.value().split(" ");
                        int cents = 50 * Integer.parseInt(order[1]);
                        producer.send(new ProducerRecord<>("invoices", record.key(), order[0] + " " + cents));
                        positions.put(
                            new TopicPartition(record.topic(), record.partition()),
                            new OffsetAndMetadata(record.offset() + 1));
                        System.out.println(record.key() + " owes " + cents + " cents for order " + order[0]);
                    }
                    producer.sendOffsetsToTransaction(positions, consumer.groupMetadata());
                    producer.commitTransaction();
                } catch (KafkaException failed) {
                    producer.abortTransaction();
                    throw failed;
                }
                done += records.count();
            }
        }
    }
}
