package mortise.bench;

/** How a thread holds a lock, and so who may be inside together with it; the benchmark's workload.role. */
enum Role {
    /** Nobody else. */
    SINGLE,
    /** Others that read. */
    READING,
    /** Nobody else. */
    WRITING,
    /** As many as there are permits. */
    PERMITTED
}
