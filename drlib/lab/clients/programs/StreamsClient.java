import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.Stores;

/**
 * A Kafka Streams application with exactly_once_v2: the running sum of each key's numbers. Records are repartitioned by the key
 * without its prefix, the store is in memory with a changelog topic, and every new sum goes to the output topic. It knows one
 * address and follows no pointer. It writes each record that it has added as a line of a history, with where the record was and
 * the new sum, whether or not the transaction commits.
 * Arguments: application.id, alias, bootstrap.servers, a properties file or "", input topics, output topic, history, then
 * key=value of settings; uncaught.exception.handler is what the application sets in its code, SHUTDOWN_CLIENT by default. It
 * prints its states, and ends on SIGTERM, or in the state ERROR.
 */
public class StreamsClient {
    static final String HANDLER = "uncaught.exception.handler";
    static final Duration END = Duration.ofSeconds(5);
    static String name, alias;
    static PrintStream history;

    public static void main(String[] args) throws Exception {
        Locale.setDefault(Locale.ROOT);  // digits of a history are ASCII's, wherever its user lives
        name = args[0];
        alias = args[1];
        history = new PrintStream(new FileOutputStream(args[6], true), true, StandardCharsets.UTF_8);
        var config = new Properties();
        if (!args[3].isEmpty())
            try (var file = new FileInputStream(args[3])) {
                config.load(file);
            }
        config.put("bootstrap.servers", args[2]);
        config.put("application.id", name);
        config.put("processing.guarantee", "exactly_once_v2");
        config.put("auto.offset.reset", "earliest");
        for (String setting : List.of(args).subList(7, args.length))
            config.put(setting.substring(0, setting.indexOf('=')), setting.substring(setting.indexOf('=') + 1));
        var response = StreamThreadExceptionResponse.valueOf((String) config.getOrDefault(HANDLER, "SHUTDOWN_CLIENT"));
        config.remove(HANDLER);
        var builder = new StreamsBuilder();
        builder.stream(List.of(args[4].split(",")), Consumed.with(Serdes.String(), Serdes.String()))
            .process(Read::new)
            .groupBy((key, value) -> key.substring(key.indexOf('/') + 1), Grouped.<String, Long>as("by-key").withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()))
            .reduce(Long::sum, Materialized.<String, Long>as(Stores.inMemoryKeyValueStore("total")).withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()).withCachingDisabled())
            .toStream()
            .process(Added::new)
            .to(args[5], Produced.with(Serdes.String(), Serdes.String()));
        var streams = new KafkaStreams(builder.build(), config);
        streams.setUncaughtExceptionHandler(error -> {
            System.out.println(response + ": " + error);
            return response;
        });
        var ended = new CountDownLatch(1);
        streams.setStateListener((now, before) -> {
            System.out.println(now);
            System.out.flush();
            if (now == KafkaStreams.State.ERROR) ended.countDown();
        });
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            if (streams.state() == KafkaStreams.State.ERROR) return;
            streams.close(END);
            line("[\"E\"]");
        }));
        streams.start();
        ended.await();
        System.exit(1);
    }

    static synchronized void line(String text) {
        history.print(text + "\n");
    }

    static String header(Headers headers, String key, String otherwise) {
        var found = headers.lastHeader(key);
        return found == null ? otherwise : new String(found.value(), StandardCharsets.UTF_8);
    }

    /** The number of a record, which keeps in a header where it was read. */
    static class Read extends ContextualProcessor<String, String, String, Long> {
        @Override
        public void process(Record<String, String> record) {
            var at = context().recordMetadata().get();
            String from = String.format("\"%s\",%d,%d", at.topic(), at.partition(), at.offset());
            var next = record.withValue(Long.valueOf(record.value()));
            next.headers().add("from", from.getBytes(StandardCharsets.UTF_8));
            context().forward(next);
        }
    }

    /** The new sum, once it is written down. */
    static class Added extends ContextualProcessor<String, Long, String, String> {
        @Override
        public void process(Record<String, Long> record) {
            var headers = record.headers();
            line(String.format("[\"C\",\"%s\",\"%s\",%s,\"%s\",\"%s\",%s,%d,%d]", name, alias, header(headers, "from", "\"\",-1,-1"),
                header(headers, "id", ""), record.key(), header(headers, "n", "-1"), System.currentTimeMillis(), record.value()));
            context().forward(record.withValue(String.valueOf(record.value())));
        }
    }
}
