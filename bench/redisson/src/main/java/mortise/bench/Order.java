package mortise.bench;

/** What to run: the benchmark's rig.Order, and its workload.Spec as far as it applies here. */
record Order(String system, String addr, String gate, Spec spec) {
    /** Inside is in nanoseconds. */
    record Spec(String kind, int n, String key, boolean shared, boolean sides, int writers, int permits, long inside,
            int process) {
        /** How thread i holds the lock. */
        Role role(int i) {
            if (permits > 0) {
                return Role.PERMITTED;
            }
            if (sides) {
                return i < writers ? Role.WRITING : Role.READING;
            }
            return Role.SINGLE;
        }

        /** The name of the lock of thread i. */
        String key(int i) {
            return shared ? key : key + ":" + process + ":" + i;
        }
    }
}
