import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.producer.ProducerInterceptor;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;

/** Puts a prefix before each value on its way out, and at the end prints how many were sent, acknowledged and refused. */
public final class CountingInterceptor implements ProducerInterceptor<String, String> {
    private final AtomicInteger sent = new AtomicInteger();
    private final AtomicInteger acknowledged = new AtomicInteger();
    private final AtomicInteger refused = new AtomicInteger();
    private String prefix;

    @Override
    public void configure(Map<String, ?> properties) {
        prefix = properties.get("counting.prefix").toString();
    }

    @Override
    public ProducerRecord<String, String> onSend(ProducerRecord<String, String> record) {
        sent.incrementAndGet();
        return new ProducerRecord<>(record.topic(), record.partition(), record.timestamp(), record.key(), prefix + record.value());
    }

    @Override
    public void onAcknowledgement(RecordMetadata metadata, Exception exception) {
        (exception == null ? acknowledged : refused).incrementAndGet();
    }

    @Override
    public void close() {
        System.out.println("sent:" + sent + ";acknowledged:" + acknowledged + ";refused:" + refused);
    }
}
