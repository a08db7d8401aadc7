package mortise.agent;

import org.redisson.api.RedissonClient;

/** What a command was called with: {@code <id> <thread> <command> [argument...]}. */
record Call(RedissonClient redisson, String[] words) {
    private static final int FIRST_ARGUMENT = 3;

    boolean has(int argument) {
        return FIRST_ARGUMENT + argument < words.length;
    }

    String text(int argument) {
        if (!has(argument)) {
            throw new IllegalArgumentException(words[2] + " needs at least " + (argument + 1) + " argument(s)");
        }
        return words[FIRST_ARGUMENT + argument];
    }

    long number(int argument) {
        return Long.parseLong(text(argument));
    }
}
