package mortise.agent;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RBucket;
import org.redisson.api.RLock;
import org.redisson.client.codec.StringCodec;

/**
 * {@code contend LOCK TARGET N [leaseMs]}: N times lock, add one to a counter by reading and then writing it, unlock. Only the
 * lock protects the counter, so a missing count at the end is two holders at once. TARGET is a Redis key, or
 * {@code file:<path>} for a counter that needs no Redis.
 */
final class Contention {
    private interface Counter {
        String read() throws IOException;

        void write(String value) throws IOException;
    }

    private Contention() {
    }

    static Object run(RLock lock, Call call) throws IOException {
        Counter counter = counter(call, call.text(0));
        long iterations = call.number(1);
        long longestWait = 0;
        for (long i = 0; i < iterations; i++) {
            long asked = System.nanoTime();
            if (call.has(2)) {
                lock.lock(call.number(2), TimeUnit.MILLISECONDS);
            } else {
                lock.lock();
            }
            try {
                longestWait = Math.max(longestWait, System.nanoTime() - asked);
                counter.write(Long.toString(parse(counter.read()) + 1));
            } finally {
                lock.unlock();
            }
        }
        return Map.of("iterations", iterations, "longestWaitMs", Nanos.toMillis(longestWait));
    }

    /**
     * {@code race LOCK TARGET TIMES TOTAL}: as contend, until the thread has had the lock TIMES times, 0 for as often as
     * it can, or it finds that the counter has come to TOTAL. The answer says how often it had the lock, and what was the
     * most that others added while it waited.
     */
    static Object race(RLock lock, Call call) throws IOException {
        Counter counter = counter(call, call.text(0));
        long limit = call.number(1) == 0 ? Long.MAX_VALUE : call.number(1);
        long total = call.number(2);
        long times = 0;
        long passed = 0;
        long longestWait = 0;
        while (times < limit) {
            long before = parse(counter.read());
            long asked = System.nanoTime();
            lock.lock();
            try {
                long count = parse(counter.read());
                if (count >= total) {
                    break;
                }
                longestWait = Math.max(longestWait, System.nanoTime() - asked);
                passed = Math.max(passed, count - before);
                counter.write(Long.toString(count + 1));
                times++;
            } finally {
                lock.unlock();
            }
        }
        return Map.of("times", times, "passed", passed, "longestWaitMs", Nanos.toMillis(longestWait));
    }

    /** {@code hold LOCK TARGET N MS}: as contend, and holds the lock for up to MS milliseconds each time. */
    static Object hold(RLock lock, Call call) throws IOException, InterruptedException {
        Counter counter = counter(call, call.text(0));
        long iterations = call.number(1);
        long longestWait = 0;
        for (long i = 0; i < iterations; i++) {
            long asked = System.nanoTime();
            lock.lock();
            try {
                longestWait = Math.max(longestWait, System.nanoTime() - asked);
                counter.write(Long.toString(parse(counter.read()) + 1));
                Thread.sleep(ThreadLocalRandom.current().nextLong(call.number(2)));
            } finally {
                lock.unlock();
            }
        }
        return Map.of("times", iterations, "longestWaitMs", Nanos.toMillis(longestWait));
    }

    private static long parse(String value) {
        return value == null || value.isBlank() ? 0 : Long.parseLong(value.strip());
    }

    private static Counter counter(Call call, String target) {
        if (target.startsWith("file:")) {
            return inFile(Path.of(target.substring("file:".length())));
        }
        RBucket<String> bucket = call.redisson().getBucket(target, StringCodec.INSTANCE);
        return new Counter() {
            @Override
            public String read() {
                return bucket.get();
            }

            @Override
            public void write(String value) {
                bucket.set(value);
            }
        };
    }

    private static Counter inFile(Path path) {
        return new Counter() {
            @Override
            public String read() throws IOException {
                return Files.exists(path) ? Files.readString(path) : null;
            }

            @Override
            public void write(String value) throws IOException {
                Files.writeString(path, value);
            }
        };
    }
}
