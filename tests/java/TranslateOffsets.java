import java.time.Duration;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.mirror.RemoteClusterUtils;

/**
 * The checkpoints, heartbeats and topics that MirrorMaker 2's own client finds on a target cluster, as one line of JSON.
 * Arguments: bootstrap.servers, alias of the source, then group ids. REPLICATION_POLICY in the environment: its class.
 */
public class TranslateOffsets {
    public static void main(String[] args) throws Exception {
        String policy = System.getenv().getOrDefault(
            "REPLICATION_POLICY", "org.apache.kafka.connect.mirror.DefaultReplicationPolicy");
        Map<String, Object> cluster = Map.of("bootstrap.servers", args[0], "replication.policy.class", policy);
        String source = args[1];
        Map<String, String> groups = new TreeMap<>();
        for (int i = 2; i < args.length; i++) {
            Map<TopicPartition, OffsetAndMetadata> found =
                RemoteClusterUtils.translateOffsets(cluster, source, args[i], Duration.ofSeconds(30));
            Map<String, String> positions = new TreeMap<>();
            found.forEach((tp, at) -> positions.put(
                tp.toString(), "[" + at.offset() + "," + quote(at.metadata()) + "]"));
            groups.put(args[i], object(positions));
        }
        Map<String, String> answer = new TreeMap<>();
        answer.put("groups", object(groups));
        answer.put("hops", Integer.toString(RemoteClusterUtils.replicationHops(cluster, source)));
        answer.put("upstreamClusters", array(RemoteClusterUtils.upstreamClusters(cluster)));
        answer.put("heartbeatTopics", array(RemoteClusterUtils.heartbeatTopics(cluster)));
        answer.put("checkpointTopics", array(RemoteClusterUtils.checkpointTopics(cluster)));
        System.out.println(object(answer));
    }

    private static String object(Map<String, String> fields) {
        return fields.entrySet().stream().map(e -> quote(e.getKey()) + ":" + e.getValue())
            .collect(Collectors.joining(",", "{", "}"));
    }

    private static String array(Iterable<String> values) {
        TreeSet<String> sorted = new TreeSet<>();
        values.forEach(sorted::add);
        return sorted.stream().map(TranslateOffsets::quote).collect(Collectors.joining(",", "[", "]"));
    }

    private static String quote(String text) {
        return "\"" + text.replace("\\", "\\\\").replace("\"", "\\\"") + "\"";
    }
}
