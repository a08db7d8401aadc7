package mortise.bench;

/** What one thread acquires and releases, again and again. */
interface Entrance {
    void enter() throws InterruptedException;

    void leave();
}
