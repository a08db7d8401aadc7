package mortise.bench;

import java.io.IOException;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/**
 * The benchmark's workload.Gate, in memory that all workers share: the actor inside the lock, the last one, and when that
 * one began to unlock, by CLOCK_MONOTONIC, which is what {@link System#nanoTime} reads on Linux; and where several may be
 * inside, how many they are, and for how long there were any.
 */
final class Gate {
    private static final VarHandle WORDS = MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
    private static final int INSIDE = 0;
    private static final int LAST = 8;
    private static final int LEFT = 16;
    private static final int COMPANY = 24;
    private static final int SIZE = 32;
    private static final int CROWD_BITS = 16;
    private static final long CROWD = (1L << CROWD_BITS) - 1;

    private final ByteBuffer words;

    private Gate(ByteBuffer words) {
        this.words = words;
    }

    static Gate map(String path) throws IOException {
        if (path.isEmpty()) {
            return new Gate(ByteBuffer.allocateDirect(SIZE));
        }
        try (FileChannel file = FileChannel.open(Path.of(path), StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            return new Gate(file.map(FileChannel.MapMode.READ_WRITE, 0, SIZE));
        }
    }

    /** Whether another actor was inside, the actor before (0: none ever), and how long ago that one left. */
    record Entry(boolean overlap, long from, long gap) {
    }

    /** An overlap is company that the role forbids; as in the benchmark, of two that overlap, one sees it. */
    Entry pass(Role role, long id, int permits, long now) {
        return switch (role) {
            case SINGLE -> enter(id, now);
            case WRITING -> {
                Entry e = enter(id, now);
                yield new Entry(arrive(now) > 1 || e.overlap(), e.from(), e.gap());
            }
            case READING -> {
                arrive(now);
                yield new Entry((long) WORDS.getVolatile(words, INSIDE) != 0, 0, 0);
            }
            case PERMITTED -> new Entry(arrive(now) > permits, 0, 0);
        };
    }

    /** Must be called before the release is asked for. */
    void quit(Role role, long id, long now) {
        if (role == Role.SINGLE || role == Role.WRITING) {
            leave(id, now);
        }
        if (role != Role.SINGLE) {
            depart(now);
        }
    }

    private long arrive(long now) {
        while (true) {
            long old = (long) WORDS.getVolatile(words, COMPANY);
            long next = old + 1;
            if ((old & CROWD) == 0) {
                next -= now << CROWD_BITS;
            }
            if (WORDS.compareAndSet(words, COMPANY, old, next)) {
                return next & CROWD;
            }
        }
    }

    private void depart(long now) {
        while (true) {
            long old = (long) WORDS.getVolatile(words, COMPANY);
            long next = old - 1;
            if ((old & CROWD) == 1) {
                next += now << CROWD_BITS;
            }
            if (WORDS.compareAndSet(words, COMPANY, old, next)) {
                return;
            }
        }
    }

    /** For how long there was anybody inside, since nobody knows when. */
    long busy(long now) {
        long word = (long) WORDS.getVolatile(words, COMPANY);
        if ((word & CROWD) != 0) {
            word += now << CROWD_BITS;
        }
        return word >>> CROWD_BITS;
    }

    /** The time between two values of busy. */
    static long busyFor(long from, long to) {
        return ((to - from) << CROWD_BITS) >>> CROWD_BITS;
    }

    private Entry enter(long id, long now) {
        boolean overlap = (long) WORDS.getAndSet(words, INSIDE, id) != 0;
        long from = (long) WORDS.getVolatile(words, LAST);
        return new Entry(overlap, from, Math.max(0, now - (long) WORDS.getVolatile(words, LEFT)));
    }

    private void leave(long id, long now) {
        WORDS.setVolatile(words, LAST, id);
        WORDS.setVolatile(words, LEFT, now);
        WORDS.compareAndSet(words, INSIDE, id, 0L); // it is another's if there was an overlap
    }

    /** The id of a thread: its process, from 1, in the upper half. */
    static long actor(int process, int thread) {
        return (process + 1L) << 32 | (thread + 1L);
    }

    static boolean sameProcess(long a, long b) {
        return a >>> 32 == b >>> 32;
    }
}
