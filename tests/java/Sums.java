import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.Stores;

/**
 * A Kafka Streams application with exactly_once_v2: the running sum of each key's numbers. Records are repartitioned by the key
 * without its prefix, the store is in memory with a changelog topic, and every new sum goes to the output topic.
 * Arguments: bootstrap.servers, application.id, state folder, input topic, output topic, then key=value of settings.
 * It prints its states, and ends with its input.
 */
public class Sums {
    public static void main(String[] args) throws Exception {
        var config = new Properties();
        config.put("bootstrap.servers", args[0]);
        config.put("application.id", args[1]);
        config.put("state.dir", args[2]);
        config.put("processing.guarantee", "exactly_once_v2");
        config.put("auto.offset.reset", "earliest");
        config.put("replication.factor", "1");
        for (String setting : List.of(args).subList(5, args.length))
            config.put(setting.substring(0, setting.indexOf('=')), setting.substring(setting.indexOf('=') + 1));
        var builder = new StreamsBuilder();
        builder.stream(args[3], Consumed.with(Serdes.String(), Serdes.String()))
            .mapValues(value -> Long.valueOf(value))
            .groupBy((key, value) -> key.substring(key.indexOf('/') + 1), Grouped.<String, Long>as("by-key").withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()))
            .reduce(Long::sum, Materialized.<String, Long>as(Stores.inMemoryKeyValueStore("total")).withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()))
            .toStream()
            .mapValues(sum -> String.valueOf(sum))
            .to(args[4], Produced.with(Serdes.String(), Serdes.String()));
        var streams = new KafkaStreams(builder.build(), config);
        streams.setStateListener((now, before) -> {
            System.out.println(now);
            System.out.flush();
        });
        streams.start();
        var input = new BufferedReader(new InputStreamReader(System.in));
        while (input.readLine() != null) {}
        streams.close();
    }
}
