package mortise.agent;

import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RPermitExpirableSemaphore;

/**
 * The commands of {@link RPermitExpirableSemaphore}: {@code permits.VERB NAME [argument...]}. N is a number of
 * permits, ID is what Redisson calls one, and a lease of -1 has no end. Several permits at once, and what counts
 * those that are acquired, Redisson has since 3.23.4, getLeaseTime since 3.41.0.
 */
final class Permits {
    private static final long WITHOUT_END = -1;

    private Permits() {
    }

    static void register(Map<String, Command> commands) {
        // permits.trySetPermits NAME N, and so on.
        commands.put("permits.trySetPermits", call -> open(call).trySetPermits(call.count(1)));
        commands.put("permits.setPermits", call -> Reflect.call(open(call), "setPermits", call.count(1)));
        commands.put("permits.addPermits", call -> {
            open(call).addPermits(call.count(1));
            return null;
        });
        commands.put("permits.acquire", Permits::acquire);
        commands.put("permits.tryAcquire", Permits::tryAcquire);
        commands.put("permits.release", Permits::release);
        commands.put("permits.tryRelease", Permits::tryRelease);
        // permits.updateLeaseTime NAME ID leaseMs.
        commands.put("permits.updateLeaseTime",
                call -> open(call).updateLeaseTime(call.text(1), call.number(2), TimeUnit.MILLISECONDS));
        // permits.getLeaseTime NAME ID: milliseconds.
        commands.put("permits.getLeaseTime", call -> Reflect.call(open(call), "getLeaseTime", call.text(1)));
        commands.put("permits.available", call -> open(call).availablePermits());
        commands.put("permits.acquired", call -> Reflect.call(open(call), "acquiredPermits"));
        commands.put("permits.permits", call -> Reflect.call(open(call), "getPermits"));
        // permits.fleet NAME, as for a lock.
        commands.put("permits.fleet", call -> Fleet.run(redisson -> {
            RPermitExpirableSemaphore permits = redisson.getPermitExpirableSemaphore(call.text(0));
            return () -> {
                String id = permits.acquire();
                return () -> permits.release(id);
            };
        }, call, call.after(1)));
        commands.put("permits.delete", call -> open(call).delete());
    }

    private static RPermitExpirableSemaphore open(Call call) {
        return call.redisson().getPermitExpirableSemaphore(call.text(0));
    }

    /** permits.acquire NAME [N [leaseMs]]: the ids. */
    private static Object acquire(Call call) throws Exception {
        int permits = call.has(1) ? call.count(1) : 1;
        if (permits != 1) {
            return call.has(2)
                    ? Reflect.call(open(call), "acquire", permits, call.number(2), TimeUnit.MILLISECONDS)
                    : Reflect.call(open(call), "acquire", permits);
        }
        return List.of(call.has(2) ? open(call).acquire(call.number(2), TimeUnit.MILLISECONDS) : open(call).acquire());
    }

    /** permits.tryAcquire NAME [N [waitMs [leaseMs]]]: the ids, none if there were not as many permits. */
    private static Object tryAcquire(Call call) throws Exception {
        int permits = call.has(1) ? call.count(1) : 1;
        long lease = call.has(3) ? call.number(3) : WITHOUT_END;
        if (permits != 1) {
            return call.has(2)
                    ? Reflect.call(open(call), "tryAcquire", permits, call.number(2), lease, TimeUnit.MILLISECONDS)
                    : Reflect.call(open(call), "tryAcquire", permits);
        }
        String id = call.has(2)
                ? open(call).tryAcquire(call.number(2), lease, TimeUnit.MILLISECONDS)
                : open(call).tryAcquire();
        return id == null ? List.of() : List.of(id);
    }

    /** permits.release NAME ID...: all of several, or none. */
    private static Object release(Call call) throws Exception {
        if (call.has(2)) {
            return Reflect.call(open(call), "release", ids(call));
        }
        open(call).release(call.text(1));
        return null;
    }

    /** permits.tryRelease NAME ID...: whether the one was released, or how many of several. */
    private static Object tryRelease(Call call) throws Exception {
        if (call.has(2)) {
            return Reflect.call(open(call), "tryRelease", ids(call));
        }
        return open(call).tryRelease(call.text(1));
    }

    private static List<String> ids(Call call) {
        return call.after(1).arguments();
    }
}
