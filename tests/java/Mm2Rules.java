import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.StringReader;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import java.util.regex.Pattern;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.mirror.DefaultReplicationPolicy;
import org.apache.kafka.connect.mirror.IdentityReplicationPolicy;
import org.apache.kafka.connect.mirror.MirrorConnectorConfig;
import org.apache.kafka.connect.mirror.MirrorMakerConfig;
import org.apache.kafka.connect.mirror.MirrorSourceConnector;
import org.apache.kafka.connect.mirror.ReplicationPolicy;
import org.apache.kafka.connect.mirror.SourceAndTarget;
import org.apache.kafka.connect.runtime.distributed.Crypto;
import org.apache.kafka.connect.runtime.distributed.DistributedConfig;

/**
 * The answers of Kafka's own classes to requests on standard input, one a line, fields separated by tabs.
 *   regex, comma list, name -> true or false; refused when java.util.regex refuses the pattern
 *   policy, default or identity, separator, internal separator enabled, topic -> its facts, separated by tabs
 *   keys, class -> every configuration key, separated by blanks
 *   default, class, key -> the key's default value
 *   effective, properties, source, target, connector or consumer or producer, key -> what MM2 hands to it, or null
 */
public class Mm2Rules {
    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] ask = Arrays.stream(line.split("\t", -1)).map(Mm2Rules::unescape).toArray(String[]::new);
            out.println(switch (ask[0]) {
                case "regex" -> matches(ask[1], ask[2]);
                case "policy" -> policy(ask[1], ask[2], ask[3], ask[4]);
                case "keys" -> String.join(" ", new TreeSet<>(definition(ask[1]).names()));
                case "default" -> String.valueOf(definition(ask[1]).defaultValues().get(ask[2]));
                case "effective" -> effective(ask[1], new SourceAndTarget(ask[2], ask[3]), ask[4], ask[5]);
                default -> throw new IllegalArgumentException(ask[0]);
            });
        }
    }

    private static String matches(String list, String name) {
        try {
            Object fields = ConfigDef.parseType("list", list, ConfigDef.Type.LIST);
            Pattern pattern = Pattern.compile(String.join("|", ((java.util.List<?>) fields).toArray(String[]::new)));
            return Boolean.toString(pattern.matcher(name).matches());
        } catch (java.util.regex.PatternSyntaxException e) {
            return "refused";
        }
    }

    private static String policy(String kind, String separator, String internal, String topic) {
        DefaultReplicationPolicy policy =
            kind.equals("identity") ? new IdentityReplicationPolicy() : new DefaultReplicationPolicy();
        Map<String, Object> config = new HashMap<>();
        config.put("replication.policy.separator", separator);
        config.put("replication.policy.internal.topic.separator.enabled", internal);
        config.put("source.cluster.alias", "A");
        policy.configure(config);
        ReplicationPolicy names = policy;
        return String.join("\t", names.formatRemoteTopic("A", topic), String.valueOf(names.topicSource(topic)),
            String.valueOf(names.upstreamTopic(topic)), names.originalTopic(topic),
            Boolean.toString(names.isInternalTopic(topic)), Boolean.toString(names.isHeartbeatsTopic(topic)),
            names.checkpointsTopic("A"), names.offsetSyncsTopic("B"));
    }

    private static String effective(String text, SourceAndTarget flow, String client, String key) throws Exception {
        Properties lines = new Properties();
        lines.load(new StringReader(text));
        Map<String, String> file = new HashMap<>();
        lines.stringPropertyNames().forEach(name -> file.put(name, lines.getProperty(name)));
        file.put("plugin.discovery", "service_load"); // quick: the class path is not searched
        MirrorMakerConfig config = new MirrorMakerConfig(file);
        Map<String, String> connector = config.connectorBaseConfig(flow, MirrorSourceConnector.class);
        switch (client) {
            case "connector":
                return String.valueOf(connector.get(key));
            case "consumer":
                var consumer = MirrorConnectorConfig.class.getDeclaredMethod("sourceConsumerConfig", Map.class);
                consumer.setAccessible(true);
                return String.valueOf(((Map<?, ?>) consumer.invoke(null, connector)).get(key));
            default: // Connect's worker hands its own to the task's producer, then the connector's overrides (KIP-458)
                String override = connector.get("producer.override." + key);
                return String.valueOf(override != null ? override : config.workerConfig(flow).get("producer." + key));
        }
    }

    private static ConfigDef definition(String name) throws Exception {
        switch (name) {
            case "ProducerConfig": return ProducerConfig.configDef();
            case "ConsumerConfig": return ConsumerConfig.configDef();
            case "AdminClientConfig": return AdminClientConfig.configDef();
            default:
        }
        Class<?> owner = Class.forName(name);
        if (owner == DistributedConfig.class) {
            var perCrypto = owner.getDeclaredMethod("config", Crypto.class);
            perCrypto.setAccessible(true);
            return (ConfigDef) perCrypto.invoke(null, Crypto.SYSTEM);
        }
        for (String field : new String[] {"CONNECTOR_CONFIG_DEF", "CONFIG"}) {
            try {
                Field found = owner.getDeclaredField(field);
                found.setAccessible(true);
                return (ConfigDef) found.get(null);
            } catch (NoSuchFieldException e) {
                continue;
            }
        }
        var method = owner.getDeclaredMethod("config");
        method.setAccessible(true);
        return (ConfigDef) method.invoke(null);
    }

    private static String unescape(String text) {
        StringBuilder out = new StringBuilder();
        for (int i = 0; i < text.length(); i++) {
            if (text.startsWith("%", i)) {
                out.append((char) Integer.parseInt(text.substring(i + 1, i + 5), 16));
                i += 4;
            } else {
                out.append(text.charAt(i));
            }
        }
        return out.toString();
    }
}
