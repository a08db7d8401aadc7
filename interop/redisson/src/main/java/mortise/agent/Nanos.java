package mortise.agent;

/** Milliseconds with microsecond digits, from nanoseconds. */
final class Nanos {
    private Nanos() {
    }

    static double toMillis(long nanos) {
        return Math.round(nanos / 1e3) / 1e3;
    }
}
