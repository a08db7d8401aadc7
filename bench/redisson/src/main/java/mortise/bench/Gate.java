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
 * one began to unlock, by CLOCK_MONOTONIC, which is what {@link System#nanoTime} reads on Linux.
 */
final class Gate {
    private static final VarHandle WORDS = MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
    private static final int INSIDE = 0;
    private static final int LAST = 8;
    private static final int LEFT = 16;
    private static final int SIZE = 24;

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

    Entry enter(long id, long now) {
        boolean overlap = (long) WORDS.getAndSet(words, INSIDE, id) != 0;
        long from = (long) WORDS.getVolatile(words, LAST);
        return new Entry(overlap, from, Math.max(0, now - (long) WORDS.getVolatile(words, LEFT)));
    }

    /** Must be called before the unlock is asked for. */
    void leave(long id, long now) {
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
