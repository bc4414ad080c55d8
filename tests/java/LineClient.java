import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * What the console clients do, for versions whose tools are not at hand: it prints each value, or sends each line and prints
 * it with its offset.
 * Arguments: consume|produce, bootstrap.servers, topic (of produce also TOPIC:PARTITION), then key=value of settings.
 */
public class LineClient {
    public static void main(String[] args) throws Exception {
        var config = new Properties();
        config.put("bootstrap.servers", args[1]);
        for (String setting : List.of(args).subList(3, args.length))
            config.put(setting.substring(0, setting.indexOf('=')), setting.substring(setting.indexOf('=') + 1));
        if (args[0].equals("consume")) consume(config, args[2]);
        else produce(config, args[2]);
    }

    static void consume(Properties config, String topic) {
        var consumer = new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(List.of(topic));
        while (true) {
            for (var record : consumer.poll(Duration.ofSeconds(1))) System.out.println(record.value());
            System.out.flush();
        }
    }

    /** Print the record's value with its offset, or the error. */
    static void send(KafkaProducer<String, String> producer, ProducerRecord<String, String> record) {
        producer.send(record, (sent, error) -> {
            System.out.println(record.value() + " " + (error == null ? sent.offset() : error.getClass().getSimpleName()));
            System.out.flush();
        });
    }

    static void produce(Properties config, String topic) throws Exception {
        var producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
        var lines = new BufferedReader(new InputStreamReader(System.in));
        int colon = topic.indexOf(':');
        String name = colon < 0 ? topic : topic.substring(0, colon);
        Integer partition = colon < 0 ? null : Integer.valueOf(topic.substring(colon + 1));
        for (String line = lines.readLine(); line != null; line = lines.readLine())
            send(producer, new ProducerRecord<>(name, partition, null, line));
    }
}
