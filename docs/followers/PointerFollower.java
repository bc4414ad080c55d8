import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Arguments: the application, then bootstrap.servers of each cluster. Needs kafka-clients and jackson-databind. */
public class PointerFollower {
    public static void main(String[] args) throws Exception {
        var topic = new TopicPartition("drlib.active.internal", 0);
        var clusters = List.of(args).subList(1, args.length).stream().map(servers -> new KafkaConsumer<>(
            Map.<String, Object>of("bootstrap.servers", servers, "isolation.level", "read_committed",
                "allow.auto.create.topics", "false"),  // and security, as for the application's own clients
            new StringDeserializer(), new StringDeserializer())).toList();
        clusters.forEach(cluster -> cluster.assign(List.of(topic)));
        clusters.forEach(cluster -> cluster.seekToBeginning(List.of(topic)));
        JsonNode newest = null;
        String now = "";
        long began = System.nanoTime(), since = 0;
        while (true) {
            for (var cluster : clusters)
                for (var record : cluster.poll(Duration.ofMillis(100))) {  // a cluster that is down returns none
                    if (record.value() == null || !List.of("*", args[0]).contains(record.key())) continue;
                    JsonNode pointer;
                    try {
                        pointer = new ObjectMapper().readTree(record.value());
                    } catch (JsonProcessingException error) {  // not a pointer: others count
                        continue;
                    }
                    if (!pointer.path("version").isIntegralNumber()) continue;
                    if (newest != null && pointer.get("version").asLong() <= newest.get("version").asLong()) continue;
                    newest = pointer;
                    since = System.nanoTime();
                }
            boolean starting = System.nanoTime() - began < 10e9;  // read every cluster to its end before acting
            if (newest == null || !clusters.stream().allMatch(c -> c.currentLag(topic).orElse(starting ? 1 : 0) == 0)) continue;
            double limit = newest.path("hold_limit_s").asDouble(0) * 1e9;
            boolean hold = newest.path("hold").asBoolean() && (limit == 0 || System.nanoTime() - since < limit);
            String next = (hold ? "stop at " : "use ") + newest.get("active").asText() + " " + newest.get("bootstrap").asText();
            if (!next.equals(now)) System.out.println(next);  // here the application closes or opens its clients
            now = next;
        }
    }
}
