package mortise.agent;

import java.util.Map;
import java.util.concurrent.TimeUnit;

/** What a fenced lock has beside the verbs of {@link Locks}. Redisson has it since 3.19.0. */
final class FencedLocks {
    private FencedLocks() {
    }

    static void register(Map<String, Command> commands) {
        commands.put("fenced.getToken", call -> Reflect.call(open(call), "getToken"));
        commands.put("fenced.lockToken", FencedLocks::lock);
        commands.put("fenced.tryLockToken", FencedLocks::tryLock);
    }

    private static Object open(Call call) throws Exception {
        return Reflect.call(call.redisson(), "getFencedLock", call.text(0));
    }

    /** fenced.lockToken NAME [leaseMs]. */
    private static Object lock(Call call) throws Exception {
        if (call.has(1)) {
            return Reflect.call(open(call), "lockAndGetToken", call.number(1), TimeUnit.MILLISECONDS);
        }
        return Reflect.call(open(call), "lockAndGetToken");
    }

    /** fenced.tryLockToken NAME [waitMs [leaseMs]]: null if the lock was not got. */
    private static Object tryLock(Call call) throws Exception {
        if (call.has(2)) {
            return Reflect.call(open(call), "tryLockAndGetToken", call.number(1), call.number(2), TimeUnit.MILLISECONDS);
        }
        if (call.has(1)) {
            return Reflect.call(open(call), "tryLockAndGetToken", call.number(1), TimeUnit.MILLISECONDS);
        }
        return Reflect.call(open(call), "tryLockAndGetToken");
    }
}
