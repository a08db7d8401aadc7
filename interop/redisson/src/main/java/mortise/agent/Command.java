package mortise.agent;

/** One command: does its work on the calling thread and returns what the answer's {@code result} shall hold. */
@FunctionalInterface
interface Command {
    Object run(Call call) throws Exception;
}
