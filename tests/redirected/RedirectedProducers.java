import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Idempotent and transactional producers of Java, each with a thread. Arguments: key=value of settings. It reads lines
 * `open CASE bootstrap.servers TOPIC [transactional.id]` and `send CASE VALUE`, and prints `CASE VALUE` with the offset or the
 * error's name; with a transactional ID each value is a transaction.
 */
public class RedirectedProducers {
    static final Map<String, ExecutorService> threads = new HashMap<>();
    static final Map<String, KafkaProducer<String, String>> producers = new HashMap<>();
    static final Map<String, String[]> opened = new HashMap<>();

    public static void main(String[] args) throws Exception {
        var lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            String name = words[1];
            if (words[0].equals("open")) {
                threads.put(name, Executors.newSingleThreadExecutor());
                opened.put(name, words);
            }
            threads.get(name).submit(() -> {
                String value = words[0].equals("open") ? "open" : words[2];
                try {
                    print(name, value, words[0].equals("open") ? open(words, args) : send(name, value));
                } catch (Throwable error) {
                    while (error.getCause() != null) error = error.getCause();
                    System.err.println(name + " " + value + " " + error);
                    print(name, value, error.getClass().getSimpleName());
                    abort(name);
                }
            });
        }
        System.exit(0);
    }

    static void print(String name, String value, Object result) {
        System.out.println(name + " " + value + " " + result);
        System.out.flush();
    }

    static long open(String[] words, String[] settings) {
        var config = new Properties();
        config.put("bootstrap.servers", words[2]);
        config.put("client.id", words[1]);
        for (String each : List.of(settings)) config.put(each.substring(0, each.indexOf('=')), each.substring(each.indexOf('=') + 1));
        if (words.length > 4) config.put("transactional.id", words[4]);
        var producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
        synchronized (producers) { producers.put(words[1], producer); }
        if (words.length > 4) producer.initTransactions();
        return 0;
    }

    static KafkaProducer<String, String> producer(String name) {
        synchronized (producers) { return producers.get(name); }
    }

    static long send(String name, String value) throws Exception {
        var producer = producer(name);
        boolean transactional = opened.get(name).length > 4;
        if (transactional) producer.beginTransaction();
        var sent = producer.send(new ProducerRecord<>(opened.get(name)[3], 0, null, value));
        producer.flush();
        long offset = sent.get().offset();
        if (transactional) producer.commitTransaction();
        return offset;
    }

    /** As an application does after an error that is not fatal. */
    static void abort(String name) {
        try {
            if (opened.get(name).length > 4) producer(name).abortTransaction();
        } catch (Throwable fatal) {
            System.err.println(name + " abort " + fatal);
        }
    }
}
