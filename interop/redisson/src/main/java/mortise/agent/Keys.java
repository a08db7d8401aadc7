package mortise.agent;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;

/** The commands that find keys by a pattern, as programs do that look after their data. */
final class Keys {
    private Keys() {
    }

    static void register(Map<String, Command> commands) {
        // keys PATTERN: their names, in order.
        commands.put("keys", call -> {
            List<String> names = new ArrayList<>();
            for (Object name : (Iterable<?>) Reflect.call(call.redisson().getKeys(), "getKeysByPattern", call.text(0))) {
                names.add(name.toString());
            }
            Collections.sort(names);
            return names;
        });
        commands.put("keys.delete", call -> call.redisson().getKeys().deleteByPattern(call.text(0)));
    }
}
