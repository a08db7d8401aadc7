package mortise.agent;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RedissonClient;

/**
 * {@code fleet LOCK CLIENTS THREADS HOLDUS FROM UNTIL}: so many threads of each of so many Redisson clients, the agent's
 * own and the next of {@code --redlock}, lock, hold for HOLDUS microseconds and unlock over and over. FROM and UNTIL are
 * milliseconds since 1970, so that several processes run at the same time. A wait that lasts beyond UNTIL counts up to
 * then, and does not count as an acquisition. A permit of a semaphore is a lock, too.
 */
final class Fleet {
    /** What the threads enter. The way out is of the same thread. */
    interface Gate {
        Exit enter() throws InterruptedException;
    }

    interface Exit {
        void leave();
    }

    interface Opener {
        Gate open(RedissonClient redisson) throws Exception;
    }

    /** What one thread has to say: how often it had the lock, and its waits. */
    private record Member(long times, long longestWait) {
    }

    private Fleet() {
    }

    /** The load is the arguments after those that name the lock. */
    static Object run(Opener opener, Call call, Call load) throws Exception {
        long hold = TimeUnit.MICROSECONDS.toNanos(load.number(2));
        long lead = TimeUnit.MILLISECONDS.toNanos(load.number(3) - System.currentTimeMillis());
        long from = System.nanoTime() + lead;
        long until = from + TimeUnit.MILLISECONDS.toNanos(load.number(4) - load.number(3));

        List<Callable<Member>> members = new ArrayList<>();
        for (int client = 0; client < load.count(0); client++) {
            RedissonClient redisson = client == 0 ? call.redisson() : call.servers().get(client - 1);
            Gate gate = opener.open(redisson);
            members.addAll(Collections.nCopies(load.count(1), () -> member(gate, hold, from, until)));
        }
        ExecutorService threads = Executors.newFixedThreadPool(members.size());
        try {
            long times = 0;
            long least = Long.MAX_VALUE;
            long longest = 0;
            for (Future<Member> done : threads.invokeAll(members)) {
                Member member = done.get();
                times += member.times();
                least = Math.min(least, member.times());
                longest = Math.max(longest, member.longestWait());
            }
            return Map.of("times", times, "least", least, "longestWaitMs", Nanos.toMillis(longest));
        } finally {
            threads.shutdown();
        }
    }

    private static Member member(Gate gate, long hold, long from, long until) throws InterruptedException {
        TimeUnit.NANOSECONDS.sleep(from - System.nanoTime());
        long times = 0;
        long longest = 0;
        for (long asked = System.nanoTime(); asked - until < 0; asked = System.nanoTime()) {
            Exit exit = gate.enter();
            try {
                long had = System.nanoTime();
                longest = Math.max(longest, Math.min(had, until) - asked);
                if (had - until < 0) {
                    times++;
                    TimeUnit.NANOSECONDS.sleep(hold);
                }
            } finally {
                exit.leave();
            }
        }
        return new Member(times, longest);
    }
}
