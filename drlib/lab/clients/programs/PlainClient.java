import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * A producer or consumer as people write them in Java: it knows one address and follows no pointer. It writes what it experienced
 * as a history. Arguments: produce|consume, name, alias, bootstrap.servers, a properties file or "", topics, history, first number,
 * records per second, then key=value of settings.
 */
public class PlainClient {
    static final int KEYS = 7;
    static volatile boolean ended = false;
    static final CountDownLatch done = new CountDownLatch(1);
    static String name, alias;
    static PrintStream history;

    public static void main(String[] args) throws Exception {
        Locale.setDefault(Locale.ROOT);  // digits of a history are ASCII's, wherever its user lives
        name = args[1];
        alias = args[2];
        history = new PrintStream(new FileOutputStream(args[6], true), true, StandardCharsets.UTF_8);
        Properties config = new Properties();
        if (!args[4].isEmpty())
            try (var file = new FileInputStream(args[4])) {
                config.load(file);
            }
        for (String setting : List.of(args).subList(9, args.length))
            config.put(setting.substring(0, setting.indexOf('=')), setting.substring(setting.indexOf('=') + 1));
        config.put("bootstrap.servers", args[3]);
        config.put("client.id", name);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            ended = true;
            try {
                done.await();
            } catch (InterruptedException ignored) {
                Thread.currentThread().interrupt();
            }
        }));
        try {
            if (args[0].equals("produce")) produce(config, args[5], Long.parseLong(args[7]), Double.parseDouble(args[8]));
            else consume(config, List.of(args[5].split(",")));
            line("[\"E\"]");
        } finally {
            done.countDown();
        }
    }

    /** A header's text; `otherwise` of a record that another program wrote, which has none. */
    static String header(Headers headers, String key, String otherwise) {
        var found = headers.lastHeader(key);
        return found == null ? otherwise : new String(found.value(), StandardCharsets.UTF_8);
    }

    static synchronized void line(String text) {
        history.print(text + "\n");
    }

    static void produced(long number, String topic, int partition, long offset, long sent, String status) {
        line(String.format("[\"P\",\"%s-%d\",\"%s-k%d\",%d,\"%s\",\"%s\",%d,%d,%d,%d,\"%s\",null]", name, number, name, number % KEYS,
            number / KEYS, alias, topic, partition, offset, sent, System.currentTimeMillis(), status));
    }

    static void produce(Properties config, String topic, long first, double perSecond) throws Exception {
        var waiting = new ConcurrentHashMap<Long, Long>();
        var producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
        long began = System.nanoTime();
        for (long number = first; !ended; number++) {
            long current = number, sent = System.currentTimeMillis();
            var record = new ProducerRecord<>(topic, name + "-k" + number % KEYS, String.format("%0100d", number));
            record.headers().add("id", (name + "-" + number).getBytes()).add("n", ("" + number / KEYS).getBytes());
            waiting.put(current, sent);
            try {
                producer.send(record, (at, error) -> {
                    if (waiting.remove(current) == null) return;
                    if (error == null) produced(current, topic, at.partition(), at.offset(), sent, "acked");
                    else produced(current, topic, -1, -1, sent, "in-doubt");
                });
            } catch (KafkaException error) {  // nothing was sent
                waiting.remove(current);
            }
            long due = began + (long) ((number - first + 1) * 1e9 / perSecond) - System.nanoTime();
            if (due > 0) Thread.sleep(due / 1_000_000, (int) (due % 1_000_000));
        }
        producer.close(Duration.ofSeconds(5));
        waiting.forEach((number, sent) -> produced(number, topic, -1, -1, sent, "in-doubt"));
    }

    static void consume(Properties config, List<String> topics) {
        config.put("group.id", name);
        config.put("enable.auto.commit", "false");
        config.put("auto.offset.reset", "earliest");
        var consumer = new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(topics);
        while (!ended) {
            Map<TopicPartition, Long> ends = new HashMap<>();
            for (var record : consumer.poll(Duration.ofMillis(200))) {
                String id = header(record.headers(), "id", ""), n = header(record.headers(), "n", "-1");
                line(String.format("[\"C\",\"%s\",\"%s\",\"%s\",%d,%d,\"%s\",\"%s\",%s,%d]", name, alias, record.topic(),
                    record.partition(), record.offset(), id, record.key(), n, System.currentTimeMillis()));
                ends.put(new TopicPartition(record.topic(), record.partition()), record.offset() + 1);
            }
            if (ends.isEmpty()) continue;
            try {
                consumer.commitSync();
                ends.forEach((at, end) -> line(String.format("[\"K\",\"%s\",\"%s\",\"%s\",%d,%d,%d,\"acked\"]", name, alias,
                    at.topic(), at.partition(), end, System.currentTimeMillis())));
            } catch (KafkaException error) {
                System.out.println("not committed: " + error.getClass().getSimpleName());
            }
        }
        try {
            consumer.close(Duration.ofSeconds(2));
        } catch (KafkaException error) {
            System.out.println("not closed: " + error.getClass().getSimpleName());
        }
    }
}
