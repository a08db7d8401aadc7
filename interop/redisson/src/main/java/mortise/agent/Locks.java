package mortise.agent;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.BiFunction;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/**
 * The commands of everything that is an {@link RLock}. The plain lock answers to the bare verb ({@code lock NAME});
 * any further kind is one line in {@link #KINDS} and answers to {@code <kind>.<verb>}.
 */
final class Locks {
    private static final Map<String, BiFunction<RedissonClient, String, RLock>> KINDS = new LinkedHashMap<>();

    static {
        KINDS.put("", RedissonClient::getLock);
        KINDS.put("fair", RedissonClient::getFairLock);
        KINDS.put("spin", RedissonClient::getSpinLock);
        KINDS.put("read", (redisson, name) -> redisson.getReadWriteLock(name).readLock());
        KINDS.put("write", (redisson, name) -> redisson.getReadWriteLock(name).writeLock());
    }

    private Locks() {
    }

    static void register(Map<String, Command> commands) {
        KINDS.forEach((kind, open) -> {
            String prefix = kind.isEmpty() ? "" : kind + ".";
            verbs().forEach((verb, run) ->
                    commands.put(prefix + verb, call -> run.on(open.apply(call.redisson(), call.text(0)), call)));
        });
    }

    private interface Verb {
        Object on(RLock lock, Call call) throws Exception;
    }

    private static Map<String, Verb> verbs() {
        Map<String, Verb> verbs = new LinkedHashMap<>();
        verbs.put("lock", Locks::lock);
        verbs.put("tryLock", Locks::tryLock);
        verbs.put("unlock", Locks::unlock);
        verbs.put("forceUnlock", (lock, call) -> lock.forceUnlock());
        verbs.put("state", Locks::state);
        verbs.put("contend", Contention::run);
        return verbs;
    }

    /** lock NAME [leaseMs]. */
    private static Object lock(RLock lock, Call call) {
        if (call.has(1)) {
            lock.lock(call.number(1), TimeUnit.MILLISECONDS);
        } else {
            lock.lock();
        }
        return null;
    }

    /** tryLock NAME [waitMs [leaseMs]]. */
    private static Object tryLock(RLock lock, Call call) throws InterruptedException {
        if (call.has(2)) {
            return lock.tryLock(call.number(1), call.number(2), TimeUnit.MILLISECONDS);
        }
        if (call.has(1)) {
            return lock.tryLock(call.number(1), TimeUnit.MILLISECONDS);
        }
        return lock.tryLock();
    }

    private static Object unlock(RLock lock, Call call) {
        lock.unlock();
        return null;
    }

    /** state NAME: the lock as the calling thread sees it, and the holder that Redisson writes for that thread. */
    private static Object state(RLock lock, Call call) {
        Map<String, Object> state = new LinkedHashMap<>();
        state.put("owner", call.redisson().getId() + ":" + Thread.currentThread().getId());
        state.put("locked", lock.isLocked());
        state.put("mine", lock.isHeldByCurrentThread());
        state.put("count", lock.getHoldCount());
        state.put("ttlMs", lock.remainTimeToLive());
        return state;
    }
}
