package mortise.bench;

import com.sun.management.OperatingSystemMXBean;
import com.sun.management.ThreadMXBean;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.IntFunction;

/** Threads that take and release locks, again and again; the benchmark's workload.Cycle. */
final class Cycle {
    enum Phase { WARMING, COUNTING, OVER }

    /** How long the threads have to end of themselves, and then when they are interrupted. */
    private static final long END_MILLIS = 3_000;

    private final List<Actor> actors = new ArrayList<>();
    private final Gate gate;
    private volatile Phase phase = Phase.WARMING;
    private volatile long began;
    private Usage before;
    private long busy; // what the gate had counted when the window began

    Cycle(Order.Spec spec, Gate gate, IntFunction<Entrance> lock) {
        this.gate = gate;
        for (int i = 0; i < spec.n(); i++) {
            actors.add(new Actor(this, spec, i, gate, lock.apply(i)));
        }
        actors.forEach(Thread::start);
    }

    Phase phase() {
        return phase;
    }

    long began() {
        return began;
    }

    void begin() {
        before = Usage.now();
        began = System.nanoTime();
        busy = gate.busy(began);
        phase = Phase.COUNTING;
    }

    Result end() throws InterruptedException {
        long end = System.nanoTime();
        Result r = new Result();
        r.seconds = (end - began) / 1e9;
        r.busy = Gate.busyFor(busy, gate.busy(end)) / 1e9;
        phase = Phase.OVER;
        Usage used = Usage.now();
        r.cpu = (used.cpu - before.cpu) / 1e9;
        r.allocBytes = used.allocatedSince(before);
        Histogram waits = new Histogram();
        Histogram writeWaits = new Histogram();
        for (Actor a : actors) {
            // An actor that is still waiting counts too: it has waited at least until now.
            long since = a.waitingSince();
            if (since != 0 && since < end) {
                (a.role() == Role.WRITING ? writeWaits : waits).add(end - since);
            }
        }
        await();
        actors.forEach(Thread::interrupt);
        await();
        Histogram gaps = new Histogram();
        Histogram acrossGap = new Histogram();
        for (Actor a : actors) {
            a.report(r, a.role() == Role.WRITING ? writeWaits : waits, gaps, acrossGap);
        }
        r.waits = waits.pairs();
        r.writeWaits = writeWaits.pairs();
        r.gaps = gaps.pairs();
        r.acrossGap = acrossGap.pairs();
        return r;
    }

    /** Each holder passes the lock to the next, until no actor wants it: that takes a moment. */
    private void await() throws InterruptedException {
        long until = System.nanoTime() + END_MILLIS * 1_000_000;
        for (Actor a : actors) {
            long left = (until - System.nanoTime()) / 1_000_000;
            if (left > 0) {
                a.join(left);
            }
        }
    }

    /** What this process has used so far: ns of processor time, and bytes that each of its threads has allocated. */
    private record Usage(long cpu, Map<Long, Long> allocated) {
        static Usage now() {
            ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
            long[] ids = threads.getAllThreadIds();
            long[] bytes = threads.getThreadAllocatedBytes(ids);
            Map<Long, Long> allocated = new HashMap<>();
            for (int i = 0; i < ids.length; i++) {
                allocated.put(ids[i], Math.max(bytes[i], 0)); // -1 of a thread that has just ended
            }
            OperatingSystemMXBean system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
            return new Usage(system.getProcessCpuTime(), allocated);
        }

        /** Bytes that threads have allocated since before, without those that have ended. */
        long allocatedSince(Usage before) {
            long sum = 0;
            for (Map.Entry<Long, Long> thread : allocated.entrySet()) {
                sum += Math.max(0, thread.getValue() - before.allocated.getOrDefault(thread.getKey(), 0L));
            }
            return sum;
        }
    }
}
