package mortise.agent;

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;

/**
 * A process that works with Redisson's locks and synchronizers on command. {@link Commands} has the commands.
 *
 * <p>Each line of standard input is {@code <id> <thread> <command> [argument...]}, separated by single spaces. Every
 * thread name is a Java thread of its own, which runs its commands in the order they came; so a thread that waits for
 * a lock holds up nobody else, and a thread name is one lock owner. Each command is answered by one line of JSON
 * (see {@link Answers}) that carries its id. The first line, with id {@code ready}, tells who the agent is.
 *
 * <p>{@code bye} shuts Redisson down in order. The end of standard input ends the process on the spot and leaves its
 * locks to their TTL, so that no agent outlives the test that started it.
 */
public final class Agent {
    private final RedissonClient redisson;
    private final List<RedissonClient> servers;
    private final Answers answers;
    private final Map<String, Command> commands;
    private final Map<String, ExecutorService> threads = new HashMap<>();

    private Agent(RedissonClient redisson, List<RedissonClient> servers, Answers answers) {
        this.redisson = redisson;
        this.servers = servers;
        this.answers = answers;
        this.commands = Commands.all();
    }

    public static void main(String[] args) throws IOException {
        // Not System.out, whose encoding depends on where the agent runs.
        Answers answers = new Answers(new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8));
        long start = System.nanoTime();
        RedissonClient redisson;
        List<RedissonClient> servers;
        try {
            Settings settings = Settings.parse(args);
            redisson = Redisson.create(settings.config());
            servers = settings.servers().stream().map(Redisson::create).toList();
        } catch (RuntimeException failure) {
            answers.failed("ready", start, failure);
            Runtime.getRuntime().halt(2);
            return;
        }
        answers.succeeded("ready", start, Identity.of(redisson, servers));
        new Agent(redisson, servers, answers).serve();
    }

    private void serve() throws IOException {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            if (words.length < 3) {
                answers.failed(words[0], System.nanoTime(),
                        new IllegalArgumentException("want: <id> <thread> <command> [argument...], got: " + line));
                continue;
            }
            if (words[2].equals("bye")) {
                bye(words[0]);
            }
            thread(words[1]).execute(() -> run(words));
        }
        Runtime.getRuntime().halt(0);
    }

    private ExecutorService thread(String name) {
        return threads.computeIfAbsent(name, n -> Executors.newSingleThreadExecutor(r -> new Thread(r, n)));
    }

    private void run(String[] words) {
        long start = System.nanoTime();
        try {
            Command command = commands.get(words[2]);
            if (command == null) {
                throw new IllegalArgumentException("unknown command " + words[2] + "; known: " + commands.keySet());
            }
            List<String> arguments = Arrays.asList(words).subList(3, words.length);
            answers.succeeded(words[0], start, command.run(new Call(redisson, servers, words[2], arguments)));
        } catch (Throwable failure) { // an Error too is an answer: the other side waits for one.
            answers.failed(words[0], start, failure);
        }
    }

    private void bye(String id) {
        long start = System.nanoTime();
        servers.forEach(RedissonClient::shutdown);
        redisson.shutdown();
        answers.succeeded(id, start, Map.of());
        Runtime.getRuntime().halt(0);
    }
}
