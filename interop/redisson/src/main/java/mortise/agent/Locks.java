package mortise.agent;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RLock;
import org.redisson.api.RObject;

/**
 * The commands of everything that is an {@link RLock}: {@code VERB LOCK [argument...]}. The plain lock answers to the
 * bare verb ({@code lock NAME}), any other kind of {@link LockKinds} to {@code <kind>.<verb>}.
 */
final class Locks {
    private Locks() {
    }

    static void register(Map<String, Command> commands) {
        LockKinds.ALL.forEach((kind, k) -> {
            String prefix = kind.isEmpty() ? "" : kind + ".";
            verbs().forEach((verb, run) ->
                    commands.put(prefix + verb, call -> run.on(k.open(call), call.after(k.words()))));
            commands.put(prefix + "fleet", call -> Fleet.run(redisson -> {
                RLock lock = k.open(new Call(redisson, call.servers(), call.command(), call.arguments()));
                return () -> {
                    lock.lock();
                    return lock::unlock;
                };
            }, call, call.after(k.words())));
        });
        commands.put("rw.delete", call -> ((RObject) call.redisson().getReadWriteLock(call.text(0))).delete());
    }

    private interface Verb {
        /** The call has only the arguments that follow the lock. */
        Object on(RLock lock, Call call) throws Exception;
    }

    private static Map<String, Verb> verbs() {
        Map<String, Verb> verbs = new LinkedHashMap<>();
        verbs.put("lock", Locks::lock);
        verbs.put("lockInterruptibly", Locks::lockInterruptibly);
        verbs.put("tryLock", Locks::tryLock);
        verbs.put("unlock", Locks::unlock);
        verbs.put("forceUnlock", (lock, call) -> lock.forceUnlock());
        verbs.put("isLocked", (lock, call) -> lock.isLocked());
        verbs.put("state", Locks::state);
        verbs.put("delete", (lock, call) -> ((RObject) lock).delete());
        verbs.put("contend", Contention::run);
        verbs.put("race", Contention::race);
        verbs.put("hold", Contention::hold);
        return verbs;
    }

    /** lock LOCK [leaseMs]. */
    private static Object lock(RLock lock, Call call) {
        if (call.has(0)) {
            lock.lock(call.number(0), TimeUnit.MILLISECONDS);
        } else {
            lock.lock();
        }
        return null;
    }

    /** lockInterruptibly LOCK [leaseMs]. */
    private static Object lockInterruptibly(RLock lock, Call call) throws InterruptedException {
        if (call.has(0)) {
            lock.lockInterruptibly(call.number(0), TimeUnit.MILLISECONDS);
        } else {
            lock.lockInterruptibly();
        }
        return null;
    }

    /** tryLock LOCK [waitMs [leaseMs]]. */
    private static Object tryLock(RLock lock, Call call) throws InterruptedException {
        if (call.has(1)) {
            return lock.tryLock(call.number(0), call.number(1), TimeUnit.MILLISECONDS);
        }
        if (call.has(0)) {
            return lock.tryLock(call.number(0), TimeUnit.MILLISECONDS);
        }
        return lock.tryLock();
    }

    private static Object unlock(RLock lock, Call call) {
        lock.unlock();
        return null;
    }

    /**
     * state LOCK: the lock as the calling thread sees it, and the holder that Redisson writes for that thread. What
     * Redisson does not tell of that kind of lock is null.
     */
    private static Object state(RLock lock, Call call) throws Exception {
        Map<String, Object> state = new LinkedHashMap<>();
        state.put("owner", call.redisson().getId() + ":" + Thread.currentThread().getId());
        state.put("locked", ifTold(lock::isLocked));
        state.put("mine", ifTold(lock::isHeldByCurrentThread));
        state.put("count", ifTold(lock::getHoldCount));
        state.put("ttlMs", ifTold(lock::remainTimeToLive));
        return state;
    }

    private static Object ifTold(Callable<?> question) throws Exception {
        try {
            return question.call();
        } catch (UnsupportedOperationException e) {
            return null;
        }
    }
}
