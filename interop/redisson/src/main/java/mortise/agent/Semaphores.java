package mortise.agent;

import java.time.Duration;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RSemaphore;

/** The commands of {@link RSemaphore}: {@code semaphore.VERB NAME [argument...]}. N is a number of permits. */
final class Semaphores {
    private Semaphores() {
    }

    static void register(Map<String, Command> commands) {
        commands.put("semaphore.trySetPermits", Semaphores::trySetPermits);
        commands.put("semaphore.tryAcquire", Semaphores::tryAcquire);
        commands.put("semaphore.available", call -> open(call).availablePermits());
        commands.put("semaphore.drain", call -> open(call).drainPermits());
        // semaphore.fleet NAME, as for a lock.
        commands.put("semaphore.fleet", call -> Fleet.run(redisson -> {
            RSemaphore semaphore = redisson.getSemaphore(call.text(0));
            return () -> {
                semaphore.acquire();
                return semaphore::release;
            };
        }, call, call.after(1)));
        commands.put("semaphore.delete", call -> open(call).delete());
        // semaphore.releaseIfExists NAME N, since 4.0.0.
        commands.put("semaphore.releaseIfExists", call -> Reflect.call(open(call), "releaseIfExists", call.count(1)));
        // semaphore.acquire NAME N, and so on.
        commands.put("semaphore.acquire", call -> {
            open(call).acquire(call.count(1));
            return null;
        });
        commands.put("semaphore.release", call -> {
            open(call).release(call.count(1));
            return null;
        });
        commands.put("semaphore.addPermits", call -> {
            open(call).addPermits(call.count(1));
            return null;
        });
    }

    private static RSemaphore open(Call call) {
        return call.redisson().getSemaphore(call.text(0));
    }

    /** semaphore.trySetPermits NAME N [ttlMs], the TTL since 3.29.0. */
    private static Object trySetPermits(Call call) throws Exception {
        if (call.has(2)) {
            return Reflect.call(open(call), "trySetPermits", call.count(1), Duration.ofMillis(call.number(2)));
        }
        return open(call).trySetPermits(call.count(1));
    }

    /** semaphore.tryAcquire NAME N [waitMs]. */
    private static Object tryAcquire(Call call) throws InterruptedException {
        if (call.has(2)) {
            return open(call).tryAcquire(call.count(1), call.number(2), TimeUnit.MILLISECONDS);
        }
        return open(call).tryAcquire(call.count(1));
    }
}
