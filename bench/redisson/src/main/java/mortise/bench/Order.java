package mortise.bench;

/** What to run: the benchmark's rig.Order, and its workload.Spec as far as it applies here. */
record Order(String system, String addr, String gate, Spec spec) {
    /** Inside is in nanoseconds. */
    record Spec(String kind, int n, String key, boolean shared, long inside, int process) {
        /** The name of the lock of thread i. */
        String key(int i) {
            return shared ? key : key + ":" + process + ":" + i;
        }
    }
}
