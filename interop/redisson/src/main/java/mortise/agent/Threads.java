package mortise.agent;

import java.util.Map;
import java.util.Set;

/** What one thread of the agent can tell of another, or do to it. */
final class Threads {
    /**
     * Where a waiter sleeps that is woken by a message. The exceptions are the spin lock, which nobody wakes, and
     * the agent itself: no command sleeps in one of these for any other reason.
     */
    private static final Set<String> BEDS = Set.of(
            "java.util.concurrent.Semaphore.acquire",
            "java.util.concurrent.Semaphore.tryAcquire",
            "org.redisson.misc.ReclosableLatch.await", // of the count-down latch
            "java.lang.Thread.sleep");                 // of the spin lock

    private Threads() {
    }

    /**
     * {@code parked THREAD}: whether that thread sleeps until a message or a timeout. A waiter subscribes, tries once
     * more, and sleeps only then; before that it would get a released lock without any message. Never true of
     * fenced.lockToken and tryLockToken: there the whole wait is one future.
     */
    static boolean parked(String name) {
        for (Map.Entry<Thread, StackTraceElement[]> running : Thread.getAllStackTraces().entrySet()) {
            if (running.getKey().getName().equals(name)) {
                for (StackTraceElement frame : running.getValue()) {
                    if (BEDS.contains(frame.getClassName() + "." + frame.getMethodName())) {
                        return true;
                    }
                }
            }
        }
        return false;
    }

    /** {@code interrupt THREAD}: what it means for the command that runs there is Redisson's affair. */
    static boolean interrupt(String name) {
        for (Thread thread : Thread.getAllStackTraces().keySet()) {
            if (thread.getName().equals(name)) {
                thread.interrupt();
                return true;
            }
        }
        throw new IllegalArgumentException("no thread " + name);
    }
}
