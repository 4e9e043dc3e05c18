import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Three records in one transaction: Transactional BOOTSTRAP TOPIC ID END [property=value ...].
 *
 * END is commit, abort, fenced (an exception says that another producer has the id, before the commit; then close), or
 * stay (write them, say so, and do nothing more until the process is ended).
 */
public final class Transactional {
    public static void main(String[] args) throws Exception {
        Properties properties = Arguments.properties(args, 4);
        properties.put(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        properties.put(ProducerConfig.ACKS_CONFIG, "all");
        properties.put(ProducerConfig.TRANSACTIONAL_ID_CONFIG, args[2]);
        KafkaProducer<String, String> producer =
            new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer());
        String end = args[3];
        producer.initTransactions();
        try {
            producer.beginTransaction();
            for (int i = 0; i < 3; i++) {
                producer.send(new ProducerRecord<>(args[1], "1", "test " + i));
            }
            producer.flush();
            if (end.equals("stay")) {
                System.out.println("written");
                Thread.sleep(Long.MAX_VALUE);
            }
            if (end.equals("fenced")) {
                throw new ProducerFencedException("said for the test");
            }
            if (end.equals("abort")) {
                throw new KafkaException("said for the test");
            }
            producer.commitTransaction();
            System.out.println("committed");
        } catch (ProducerFencedException fenced) {
            System.out.println("fenced");
        } catch (KafkaException failed) {
            producer.abortTransaction();
            System.out.println("aborted");
        }
        producer.close();
    }
}
