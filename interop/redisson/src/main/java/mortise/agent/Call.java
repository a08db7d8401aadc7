package mortise.agent;

import java.util.Arrays;
import java.util.List;
import org.redisson.api.RedissonClient;

/**
 * What a command was called with.
 *
 * @param servers   one client per server of {@code --redlock}, in that order
 * @param command   its name
 * @param arguments what followed it
 */
record Call(RedissonClient redisson, List<RedissonClient> servers, String command, List<String> arguments) {
    boolean has(int argument) {
        return argument < arguments.size();
    }

    String text(int argument) {
        if (!has(argument)) {
            throw new IllegalArgumentException(command + " lacks an argument, it has only " + arguments);
        }
        return arguments.get(argument);
    }

    long number(int argument) {
        return Long.parseLong(text(argument));
    }

    /** A number of permits or the like, which Redisson wants as an int. */
    int count(int argument) {
        return Integer.parseInt(text(argument));
    }

    /** An argument that lists several things, separated by commas. */
    List<String> list(int argument) {
        return Arrays.asList(text(argument).split(",", -1));
    }

    /** The same call without its first arguments. */
    Call after(int first) {
        return new Call(redisson, servers, command, arguments.subList(first, arguments.size()));
    }
}
