import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * A transactional producer of Kafka's own client: each line of its input is one transaction, `topic:partition:records:bytes` for
 * each partition of it, with `abort` in front of one that is aborted. It prints `done` when the transaction has ended.
 * Arguments: bootstrap.servers, transactional.id.
 */
public class Transactions {
    public static void main(String[] args) throws Exception {
        var config = new Properties();
        config.put("bootstrap.servers", args[0]);
        config.put("transactional.id", args[1]);
        var producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
        producer.initTransactions();
        System.out.println("ready");
        System.out.flush();
        var lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            producer.beginTransaction();
            boolean abort = false;
            for (String part : line.split(" ")) {
                if (part.equals("abort")) {
                    abort = true;
                    continue;
                }
                String[] of = part.split(":");
                for (int n = 0; n < Integer.parseInt(of[2]); n++)
                    producer.send(new ProducerRecord<>(of[0], Integer.valueOf(of[1]), "k" + n, "x".repeat(Integer.parseInt(of[3]))));
            }
            producer.flush();
            if (abort) producer.abortTransaction();
            else producer.commitTransaction();
            System.out.println("done");
            System.out.flush();
        }
    }
}
