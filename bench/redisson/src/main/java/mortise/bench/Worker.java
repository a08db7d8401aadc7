package mortise.bench;

import com.google.gson.Gson;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Locale;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * A worker of the benchmark that locks with Redisson, as its defaults are. What it is told, and how it answers, stands
 * in package rig of the benchmark. The end of standard input ends it.
 *
 * <p>Before it says that it is open, it takes and releases locks of its own, so that the JVM compiles what that needs.
 */
public final class Worker {
    /** So often it takes a lock alone, and again with others if there will be others, but no longer than that. */
    private static final int WARM_PAIRS = 3_000;
    private static final int WARM_THREADS = 4;
    private static final long WARM_NANOS = 10_000_000_000L;

    private final Gson json = new Gson();
    private Order order;
    private Kind kind;
    private RedissonClient redisson;
    private Gate gate;
    private Cycle cycle;

    private Worker() {
    }

    public static void main(String[] args) throws IOException {
        Locale.setDefault(Locale.ROOT);
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Worker worker = new Worker();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonObject answer;
            try {
                answer = worker.run(JsonParser.parseString(line).getAsJsonObject());
            } catch (Exception | LinkageError e) {
                answer = new JsonObject();
                answer.addProperty("is", "failed");
                answer.addProperty("error", e.toString());
            }
            out.println(answer);
            out.flush();
        }
        Runtime.getRuntime().halt(0); // what is still held is the benchmark's own
    }

    private JsonObject run(JsonObject command) throws Exception {
        JsonObject answer = new JsonObject();
        String what = command.get("do").getAsString();
        switch (what) {
            case "open" -> {
                open(json.fromJson(command.get("order"), Order.class));
                answer.addProperty("is", "open");
            }
            case "start" -> {
                start(order.spec());
                answer.addProperty("is", "started");
            }
            case "begin" -> {
                cycle.begin();
                answer.addProperty("is", "begun");
            }
            case "end" -> {
                answer.add("result", json.toJsonTree(cycle.end()));
                answer.addProperty("is", "ended");
            }
            default -> throw new IllegalArgumentException("the command " + what + " makes no sense here");
        }
        return answer;
    }

    private void open(Order order) throws IOException, InterruptedException {
        this.order = order;
        kind = Kind.of(order.system());
        if (!order.spec().kind().equals("cycle")) {
            throw new IllegalArgumentException("this worker cannot run the kind " + order.spec().kind());
        }
        gate = Gate.map(order.gate());
        Config config = new Config();
        config.useSingleServer().setAddress("redis://" + order.addr());
        redisson = Redisson.create(config);
        warm(order.spec());
    }

    private void start(Order.Spec spec) {
        for (int i = 0; spec.permits() > 0 && i < (spec.shared() ? 1 : spec.n()); i++) {
            kind.permit(redisson, spec.key(i), spec.permits());
        }
        cycle = new Cycle(spec, gate, i -> kind.of(redisson, spec.key(i), spec.role(i)));
    }

    private void warm(Order.Spec spec) throws InterruptedException {
        String key = spec.key() + ":warm:" + spec.process();
        if (spec.permits() > 0) {
            kind.permit(redisson, key, 1);
        }
        long end = System.nanoTime() + WARM_NANOS;
        Role[] roles = spec.sides() ? new Role[] {Role.WRITING, Role.READING} : new Role[] {spec.role(0)};
        for (Role role : roles) {
            pairs(key, role, WARM_PAIRS / roles.length, end);
        }
        if (spec.shared()) {
            Thread[] threads = new Thread[WARM_THREADS];
            for (int i = 0; i < threads.length; i++) {
                Role role = roles[i % roles.length];
                threads[i] = new Thread(() -> pairs(key, role, WARM_PAIRS / WARM_THREADS, end));
                threads[i].start();
            }
            for (Thread thread : threads) {
                thread.join();
            }
        }
    }

    private void pairs(String key, Role role, int pairs, long end) {
        Entrance lock = kind.of(redisson, key, role);
        try {
            for (int i = 0; i < pairs && System.nanoTime() < end; i++) {
                lock.enter();
                lock.leave();
            }
        } catch (InterruptedException e) {
            throw new IllegalStateException(e); // nobody interrupts it
        }
    }
}
