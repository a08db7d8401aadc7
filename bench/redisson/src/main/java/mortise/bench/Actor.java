package mortise.bench;

import java.util.concurrent.TimeUnit;

/** One thread, an owner of locks to Redisson. */
final class Actor extends Thread {
    private final Cycle cycle;
    private final Gate gate; // null if nobody else wants the lock
    private final Role role;
    private final int permits;
    private final Entrance lock;
    private final long insideNanos;
    private final long id;

    private volatile long waiting; // since when; 0: it does not wait

    // Guarded by this.
    private long count;
    private long handOvers;
    private long across;
    private long overlaps;
    private long failures;
    private String failure;
    private long inside;
    private long since;
    private final Histogram waits = new Histogram();
    private final Histogram gaps = new Histogram();
    private final Histogram acrossGaps = new Histogram();

    Actor(Cycle cycle, Order.Spec spec, int number, Gate gate, Entrance lock) {
        super("actor-" + number);
        setDaemon(true);
        this.cycle = cycle;
        this.gate = spec.shared() ? gate : null;
        this.role = spec.role(number);
        this.permits = spec.permits();
        this.lock = lock;
        this.insideNanos = spec.inside();
        this.id = Gate.actor(spec.process(), number);
    }

    Role role() {
        return role;
    }

    long waitingSince() {
        return waiting;
    }

    @Override
    public void run() {
        while (cycle.phase() != Cycle.Phase.OVER) {
            long start = System.nanoTime();
            waiting = start;
            try {
                lock.enter();
            } catch (InterruptedException e) {
                return; // only the end interrupts
            } catch (RuntimeException e) {
                if (cycle.phase() != Cycle.Phase.OVER) { // some locks make that of the interrupt at the end
                    failed(e);
                }
                continue;
            }
            entered(start);
            hold();
            drop();
        }
    }

    private void hold() {
        if (insideNanos > 0) {
            try {
                TimeUnit.NANOSECONDS.sleep(insideNanos);
            } catch (InterruptedException e) {
                interrupt(); // the lock is released first
            }
        }
    }

    private synchronized void entered(long start) {
        long now = System.nanoTime();
        Gate.Entry e = gate == null ? null : gate.pass(role, id, permits, now);
        waiting = 0;
        since = now;
        if (e != null && e.overlap()) {
            overlaps++;
        }
        if (cycle.phase() != Cycle.Phase.COUNTING) {
            return;
        }
        count++;
        waits.add(now - start);
        if (e == null || e.from() == 0 || e.from() == id) {
            return;
        }
        handOvers++;
        if (Gate.sameProcess(e.from(), id)) {
            gaps.add(e.gap());
        } else {
            across++;
            acrossGaps.add(e.gap());
        }
    }

    private void drop() {
        long now = System.nanoTime();
        if (gate != null) {
            gate.quit(role, id, now);
        }
        synchronized (this) {
            if (cycle.phase() == Cycle.Phase.COUNTING) {
                inside += now - Math.max(since, cycle.began());
            }
        }
        try {
            lock.leave();
        } catch (RuntimeException e) {
            failed(e);
        }
    }

    private synchronized void failed(RuntimeException e) {
        failures++;
        if (failure == null) {
            failure = e.toString();
        }
    }

    /** Adds to r what this thread has counted. The waits are those of its role. */
    synchronized void report(Result r, Histogram allWaits, Histogram allGaps, Histogram allAcrossGaps) {
        if (isAlive()) {
            r.hung++;
        }
        (role == Role.WRITING ? r.writers : r.counts).add(count);
        r.handOvers += handOvers;
        r.across += across;
        r.overlaps += overlaps;
        r.failures += failures;
        if (r.failure == null) {
            r.failure = failure;
        }
        r.inside += inside / 1e9;
        allWaits.merge(waits);
        allGaps.merge(gaps);
        allAcrossGaps.merge(acrossGaps);
    }
}
