package mortise.agent;

import java.util.Map;
import java.util.TreeMap;

/** All commands by name. A new object is one more {@code register} here, a new command one {@code put} in it. */
final class Commands {
    private Commands() {
    }

    static Map<String, Command> all() {
        Map<String, Command> commands = new TreeMap<>();
        commands.put("owner", call -> call.redisson().getId() + ":" + Thread.currentThread().getId());
        commands.put("parked", call -> Parked.is(call.text(0)));
        Locks.register(commands);
        return commands;
    }
}
