package mortise.bench;

import java.util.ArrayList;
import java.util.List;

/** Durations in buckets that are at most 3 % wide, and the longest exactly. It is not safe for concurrent use. */
final class Histogram {
    private static final int FINE = 5; // each power of two has 1 << FINE buckets
    private static final int BUCKETS = (43 - FINE) << FINE;

    private final long[] counts = new long[BUCKETS];
    private long max;

    void add(long nanos) {
        long v = Math.max(nanos, 0);
        int shift = Math.max(0, 64 - Long.numberOfLeadingZeros(v) - FINE - 1);
        counts[(int) Math.min(((long) shift << FINE) + (v >>> shift), BUCKETS - 1)]++;
        max = Math.max(max, v);
    }

    void merge(Histogram other) {
        for (int i = 0; i < BUCKETS; i++) {
            counts[i] += other.counts[i];
        }
        max = Math.max(max, other.max);
    }

    /** As the benchmark reads it: [nanoseconds, count], the longest last. */
    List<long[]> pairs() {
        List<long[]> pairs = new ArrayList<>();
        for (int i = 0; i < BUCKETS; i++) {
            if (counts[i] > 0) {
                pairs.add(new long[] {floor(i), counts[i]});
            }
        }
        if (!pairs.isEmpty()) {
            long[] last = pairs.get(pairs.size() - 1);
            if (--last[1] == 0) {
                pairs.remove(pairs.size() - 1);
            }
            pairs.add(new long[] {max, 1});
        }
        return pairs;
    }

    /** The shortest duration of a bucket. */
    private static long floor(int i) {
        if (i < 2 << FINE) {
            return i;
        }
        int shift = (i >> FINE) - 1;
        return (long) (i - (shift << FINE)) << shift;
    }
}
