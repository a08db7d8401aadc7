package mortise.agent;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;

/** Who this agent is: what the tests need to predict its holders, and to be sure which Redisson they talked to. */
final class Identity {
    private static final String POM = "/META-INF/maven/org.redisson/redisson/pom.properties";

    private Identity() {
    }

    static Map<String, Object> of(RedissonClient redisson, List<RedissonClient> servers) {
        return Map.of(
                "client", redisson.getId(),
                "servers", servers.stream().map(RedissonClient::getId).toList(),
                "redisson", loadedVersion(),
                "pid", ProcessHandle.current().pid());
    }

    /** The version in the jar that was really loaded, not the one somebody asked for. */
    static String loadedVersion() {
        try (InputStream in = Redisson.class.getResourceAsStream(POM)) {
            if (in == null) {
                throw new IllegalStateException("the Redisson jar holds no " + POM);
            }
            Properties pom = new Properties();
            pom.load(in);
            return pom.getProperty("version");
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
