package mortise.agent;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.List;
import java.util.Locale;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.ClusterServersConfig;
import org.redisson.config.Config;
import org.redisson.config.ReadMode;
import org.redisson.config.SingleServerConfig;

/**
 * The start arguments, {@code --name=value}:
 *
 * <ul>
 *   <li>{@code --address=redis://127.0.0.1:6379}: the server, or any node of the cluster. Required.
 *   <li>{@code --mode=single|cluster}, default single.
 *   <li>{@code --sharded=auto|on|off}: sharded pub/sub, cluster only. Redisson has this setting since 3.29.0; before,
 *       only the default can be had, and anything else is refused.
 *   <li>{@code --watchdog=30000}: lock watchdog timeout in milliseconds.
 *   <li>{@code --redlock=127.0.0.1:6380,127.0.0.1:6381}: further servers, each on its own, for locks over several.
 *   <li>{@code --codec=string}: StringCodec in place of Redisson's default.
 *   <li>{@code --prefix=tenant:}: what a NameMapper puts before every name.
 * </ul>
 */
final class Settings {
    private String address;
    private String mode = "single";
    private String sharded = "auto";
    private long watchdogMs = 30_000;
    private List<String> redlock = List.of();
    private String prefix = "";
    private boolean stringCodec;

    private Settings() {
    }

    static Settings parse(String[] args) {
        Settings settings = new Settings();
        for (String arg : args) {
            settings.set(arg);
        }
        if (settings.address == null) {
            throw new IllegalArgumentException("--address=redis://host:port is required");
        }
        return settings;
    }

    /** For the client that most commands use. */
    Config config() {
        Config config = basic();
        switch (mode) {
            case "single" -> single(config.useSingleServer(), address);
            case "cluster" -> cluster(config.useClusterServers());
            default -> throw new IllegalArgumentException("--mode is single or cluster, not " + mode);
        }
        if (!prefix.isEmpty()) {
            Prefix.set(config, prefix);
        }
        return config;
    }

    /** For one client per server of {@code --redlock}. */
    List<Config> servers() {
        return redlock.stream().map(server -> {
            Config config = basic();
            single(config.useSingleServer(), "redis://" + server);
            return config;
        }).toList();
    }

    private void set(String arg) {
        int equals = arg.indexOf('=');
        String name = equals < 0 ? arg : arg.substring(0, equals);
        String value = arg.substring(equals + 1);
        switch (name) {
            case "--address" -> address = value;
            case "--mode" -> mode = value;
            case "--sharded" -> sharded = value;
            case "--watchdog" -> watchdogMs = Long.parseLong(value);
            case "--codec" -> stringCodec = value.equals("string");
            case "--prefix" -> prefix = value;
            case "--redlock" -> redlock = List.of(value.split(","));
            default -> throw new IllegalArgumentException("unknown start argument " + arg);
        }
    }

    /** Redisson's defaults wherever they reach the wire; fewer threads and idle connections, since agents are many. */
    private Config basic() {
        Config config = new Config();
        if (stringCodec) {
            config.setCodec(StringCodec.INSTANCE);
        }
        config.setThreads(4);
        config.setNettyThreads(4);
        config.setLockWatchdogTimeout(watchdogMs);
        return config;
    }

    private void single(SingleServerConfig server, String address) {
        if (!sharded.equals("auto")) {
            throw new IllegalArgumentException("--sharded needs --mode=cluster");
        }
        server.setAddress(address)
                .setConnectionMinimumIdleSize(1)
                .setSubscriptionConnectionMinimumIdleSize(1);
    }

    private void cluster(ClusterServersConfig nodes) {
        nodes.addNodeAddress(address)
                .setReadMode(ReadMode.MASTER)
                .setMasterConnectionMinimumIdleSize(1)
                .setSlaveConnectionMinimumIdleSize(1)
                .setSubscriptionConnectionMinimumIdleSize(1);
        if (!sharded.equals("auto")) {
            setSharded(nodes);
        }
    }

    /** By reflection, because the oldest Redissons of the matrix know neither the setter nor its enum. */
    private void setSharded(ClusterServersConfig nodes) {
        for (Method method : ClusterServersConfig.class.getMethods()) {
            if (method.getName().equals("setShardedSubscriptionMode")) {
                try {
                    method.invoke(nodes, constant(method.getParameterTypes()[0], sharded.toUpperCase(Locale.ROOT)));
                    return;
                } catch (IllegalAccessException | InvocationTargetException e) {
                    throw new IllegalStateException("cannot set --sharded=" + sharded, e);
                }
            }
        }
        throw new IllegalArgumentException("this Redisson has no setting for sharded pub/sub");
    }

    private static Object constant(Class<?> type, String name) {
        for (Object value : type.getEnumConstants()) {
            if (value.toString().equals(name)) {
                return value;
            }
        }
        throw new IllegalArgumentException(name + " is not one of " + type.getSimpleName());
    }
}
