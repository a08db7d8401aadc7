package mortise.agent;

import java.util.Map;
import java.util.TreeMap;

/**
 * All commands by name. A new object is a class of its own, which says what its commands take, and one more
 * {@code register} here; a new command of an object is one {@code put} there.
 */
final class Commands {
    private Commands() {
    }

    static Map<String, Command> all() {
        Map<String, Command> commands = new TreeMap<>();
        commands.put("owner", call -> call.redisson().getId() + ":" + Thread.currentThread().getId());
        commands.put("parked", call -> Threads.parked(call.text(0)));
        commands.put("interrupt", call -> Threads.interrupt(call.text(0)));
        Locks.register(commands);
        FencedLocks.register(commands);
        Semaphores.register(commands);
        Permits.register(commands);
        Latches.register(commands);
        Keys.register(commands);
        return commands;
    }
}
