package mortise.agent;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import org.redisson.config.Config;

/**
 * A NameMapper that puts a prefix before every name. The interface is in another package since 4.0, and was set for the
 * servers of a configuration before, not for the configuration; so it is implemented by reflection.
 */
final class Prefix {
    private Prefix() {
    }

    static void set(Config config, String prefix) {
        if (!setOn(config, prefix) && !setOn(servers(config), prefix)) {
            throw new IllegalArgumentException("this Redisson has no NameMapper");
        }
    }

    private static Object servers(Config config) {
        return config.isClusterConfig() ? config.useClusterServers() : config.useSingleServer();
    }

    private static boolean setOn(Object target, String prefix) {
        for (Method method : target.getClass().getMethods()) {
            if (method.getName().equals("setNameMapper")) {
                Class<?> type = method.getParameterTypes()[0];
                Object mapper = Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type},
                        (proxy, called, arguments) -> answer(proxy, called.getName(), arguments, prefix));
                try {
                    method.invoke(target, mapper);
                    return true;
                } catch (IllegalAccessException | InvocationTargetException e) {
                    throw new IllegalStateException("cannot set a NameMapper", e);
                }
            }
        }
        return false;
    }

    private static Object answer(Object proxy, String method, Object[] arguments, String prefix) {
        return switch (method) {
            case "map" -> prefix + arguments[0];
            case "unmap" -> ((String) arguments[0]).substring(prefix.length());
            case "hashCode" -> System.identityHashCode(proxy);
            case "equals" -> proxy == arguments[0];
            default -> "the prefix " + prefix;
        };
    }
}
