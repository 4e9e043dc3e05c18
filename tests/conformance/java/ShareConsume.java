import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.utils.internals.Exit;

/**
 * Reads as a member of a share group, prints each record as "partition:offset:value:delivery count", and ends after
 * COUNT records, or when it is told to stop where COUNT is 0. Says "member" once it has asked for records, and
 * "=topic/value" of each record, and "+topic/value" once the broker has taken its acknowledgement.
 *
 * Arguments: BOOTSTRAP TOPIC[,TOPIC...] GROUP COUNT implicit|accept|release|reject [PROPERTY=VALUE ...]: what it says of records.
 */
public final class ShareConsume {
    private ShareConsume() {
    }

    public static void main(String[] args) {
        int count = Integer.parseInt(args[3]);
        String how = args[4];
        Properties properties = Arguments.properties(args, 5);
        properties.put(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        properties.put(ConsumerConfig.GROUP_ID_CONFIG, args[2]);
        properties.put(ConsumerConfig.SHARE_ACKNOWLEDGEMENT_MODE_CONFIG, how.equals("implicit") ? "implicit" : "explicit");
        properties.put(ConsumerConfig.KEY_DESERIALIZER_CLASS_CONFIG, StringDeserializer.class.getName());
        properties.put(ConsumerConfig.VALUE_DESERIALIZER_CLASS_CONFIG, StringDeserializer.class.getName());
        KafkaShareConsumer<String, String> consumer = new KafkaShareConsumer<>(properties);
        Exit.addShutdownHook("stop", consumer::wakeup);
        try (consumer) {
            consumer.subscribe(List.of(args[1].split(",")));
            for (int seen = 0, polls = 0; count == 0 || seen < count; polls++) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofSeconds(1));
                for (ConsumerRecord<String, String> record : records) {
                    System.out.println("=" + record.topic() + "/" + record.value());
                    System.out.println(record.partition() + ":" + record.offset() + ":" + record.value() + ":" + record.deliveryCount().get());
                    if (!how.equals("implicit"))
                        consumer.acknowledge(record, AcknowledgeType.valueOf(how.toUpperCase()));
                }
                seen += records.count();
                Map<TopicIdPartition, Optional<KafkaException>> refused = consumer.commitSync();
                refused.values().removeIf(Optional::isEmpty);
                for (ConsumerRecord<String, String> record : records)
                    if (refused.keySet().stream().noneMatch(each -> each.partition() == record.partition() && each.topic().equals(record.topic())))
                        System.out.println("+" + record.topic() + "/" + record.value());
                if (polls == 0)
                    System.out.println("member");
            }
        } catch (WakeupException e) {
            System.out.println("stopped");
        }
    }
}
