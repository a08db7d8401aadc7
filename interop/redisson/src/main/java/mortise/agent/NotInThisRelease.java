package mortise.agent;

/** The loaded release of Redisson does not have what a command needs. The tests know it by its name. */
final class NotInThisRelease extends Exception {
    private static final long serialVersionUID = 1;

    NotInThisRelease(Object target, String method, int arguments) {
        super("Redisson " + Identity.loadedVersion() + " has no " + target.getClass().getSimpleName() + "." + method
                + " of " + arguments + " argument(s)");
    }
}
