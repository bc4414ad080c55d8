import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.errors.PolicyViolationException;
import org.apache.kafka.server.policy.AlterConfigPolicy;
import org.apache.kafka.server.policy.CreateTopicPolicy;

/** Refuses new topics as managed services do: with settings that their operators keep for themselves, or all of them. */
public class StrictPolicy implements CreateTopicPolicy {
    private String settings = "";
    private boolean all = false;

    /** A Java agent is on the broker's class path, which the lab fixes. */
    public static void premain(String arguments) {}

    @Override
    public void configure(Map<String, ?> configs) {
        settings = String.valueOf(configs.get("strict.settings"));
        all = "true".equals(configs.get("strict.all"));
    }

    @Override
    public void validate(RequestMetadata request) {
        if (ofTheBroker(request.topic())) return;
        if (all) throw new PolicyViolationException("topics are created by the platform team only");
        refuse(settings, request.configs().keySet());
    }

    @Override
    public void close() {}

    /** Its own topics, which pass both policies when it creates them (KRaft validates new settings as altered ones). */
    private static boolean ofTheBroker(String name) {
        return name.startsWith("__consumer_") || name.startsWith("__transaction_");
    }

    private static void refuse(String settings, Set<String> names) {
        for (String name : names)
            if (Set.of(settings.split(",")).contains(name))
                throw new PolicyViolationException("setting " + name + " may not be set by users of this service");
    }

    /** The same for settings of topics that exist. */
    public static class Alter implements AlterConfigPolicy {
        private String settings = "";

        @Override
        public void configure(Map<String, ?> configs) {
            settings = String.valueOf(configs.get("strict.settings"));
        }

        @Override
        public void validate(RequestMetadata request) {
            if (!ofTheBroker(request.resource().name())) refuse(settings, request.configs().keySet());
        }

        @Override
        public void close() {}
    }
}
