package mortise.agent;

import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/** The Java of docs/migration.md. It is compiled with each Redisson, and not run. */
final class Migration {
    private Migration() {
    }

    static Object tryLock(RedissonClient redisson, Callable<?> ship, Callable<?> busy) throws Exception {
        RLock lock = redisson.getLock("order:42");
        if (!lock.tryLock(5, 10, TimeUnit.SECONDS)) {
            return busy.call();
        }
        try {
            return ship.call();
        } finally {
            lock.unlock();
        }
    }
}
