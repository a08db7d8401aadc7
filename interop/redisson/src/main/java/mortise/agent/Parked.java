package mortise.agent;

import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.Semaphore;

/**
 * {@code parked THREAD}: whether that thread of the agent sleeps until a message or a timeout. A waiter subscribes,
 * tries once more, and then sleeps on a semaphore that each message feeds; before that it would get a released lock
 * without any message. All Redissons of the matrix use a {@link Semaphore} there, and for nothing else a lock does.
 */
final class Parked {
    private Parked() {
    }

    static boolean is(String thread) {
        for (Map.Entry<Thread, StackTraceElement[]> running : Thread.getAllStackTraces().entrySet()) {
            if (running.getKey().getName().equals(thread)) {
                return Arrays.stream(running.getValue()).anyMatch(f -> f.getClassName().equals(Semaphore.class.getName()));
            }
        }
        return false;
    }
}
