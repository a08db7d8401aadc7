package mortise.bench;

import com.google.gson.Gson;
import com.google.gson.annotations.SerializedName;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.redisson.Redisson;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;
import org.redisson.config.MasterSlaveServersConfig;

/**
 * The clients of Redisson to which package faults of the benchmark puts faults. Requests and answers are lines, which
 * stand in its package contender.
 */
public final class Contender {
    /** What a client is like; durations are in nanoseconds. */
    private record Settings(String system, String addr, List<String> replicas, long lease, boolean fenced, boolean fair,
            long fairWait) {
    }

    private record Request(int id, String client, Settings config, String name, String hold, String of,
            @SerializedName("wait") long limit, boolean ask) {
    }

    private record Verb(@SerializedName("do") String verb) {
    }

    private record Answer(int id, String error, String is, Long token) {
    }

    /** An error with a meaning. */
    private static final class Meaning extends Exception {
        private static final long serialVersionUID = 1;
        private final String is;

        Meaning(String is, String text) {
            super(text);
            this.is = is;
        }
    }

    private record Client(RedissonClient redisson, Settings settings) {
    }

    /** A hold is a lock and the thread that owns it. */
    private record Hold(RLock lock, Owner owner, Settings settings, Long token) {
    }

    private record Owner(ExecutorService thread, long id) {
        <T> T run(Callable<T> action) throws Exception {
            try {
                return thread.submit(action).get();
            } catch (ExecutionException e) {
                throw e.getCause() instanceof Exception cause ? cause : e;
            }
        }
    }

    private final Gson json = new Gson();
    private final Map<String, Client> clients = new ConcurrentHashMap<>();
    private final Map<String, Hold> holds = new ConcurrentHashMap<>();
    private final ExecutorService requests = Executors.newCachedThreadPool(Contender::daemon);
    private final PrintStream out =
            new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);

    private Contender() {
    }

    private static Thread daemon(Runnable action) {
        Thread thread = new Thread(action);
        thread.setDaemon(true);
        return thread;
    }

    public static void main(String[] args) throws IOException {
        Locale.setDefault(Locale.ROOT);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Contender contender = new Contender();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String text = line;
            contender.requests.execute(() -> contender.serve(text));
        }
        Runtime.getRuntime().halt(0); // what is still held is the benchmark's own
    }

    private void serve(String line) {
        Request request = json.fromJson(line, Request.class);
        Answer answer;
        try {
            answer = new Answer(request.id(), null, null, act(json.fromJson(line, Verb.class).verb(), request));
        } catch (Meaning e) {
            answer = new Answer(request.id(), e.getMessage(), e.is, null);
        } catch (IllegalMonitorStateException e) { // what unlock throws if the thread does not hold the lock
            answer = new Answer(request.id(), e.toString(), "gone", null);
        } catch (Exception | LinkageError e) {
            answer = new Answer(request.id(), e.toString(), "unknown", null);
        }
        String text = json.toJson(answer);
        synchronized (out) {
            out.println(text);
            out.flush();
        }
    }

    private Long act(String verb, Request request) throws Exception {
        switch (verb) {
            case "open" -> {
                clients.put(request.client(), new Client(Redisson.create(config(request.config())), request.config()));
                return null;
            }
            case "close" -> {
                clients.remove(request.client()).redisson().shutdown(0, 1, TimeUnit.SECONDS);
                return null;
            }
            case "lock" -> {
                return lock(request);
            }
            case "again" -> {
                Hold outer = holds.get(request.of());
                outer.owner().run(() -> {
                    outer.lock().lock();
                    return null;
                });
                holds.put(request.hold(), outer);
                return outer.token();
            }
            case "check" -> check(holds.get(request.hold()));
            case "write" -> {
                if (request.ask()) {
                    check(holds.get(request.hold()));
                }
            }
            case "lost" -> lost(holds.get(request.hold()), request.limit());
            case "unlock" -> {
                Hold hold = holds.get(request.hold());
                hold.owner().run(() -> {
                    hold.lock().unlock();
                    return null;
                });
            }
            default -> throw new IllegalArgumentException("the request " + verb + " is not known");
        }
        return holds.get(request.hold()).token();
    }

    private static Config config(Settings settings) {
        Config config = new Config();
        if (settings.lease() > 0) {
            config.setLockWatchdogTimeout(Duration.ofNanos(settings.lease()).toMillis());
        }
        if (settings.fairWait() > 0) {
            config.setFairLockWaitTimeout(Duration.ofNanos(settings.fairWait()).toMillis());
        }
        if (settings.replicas() == null) {
            config.useSingleServer().setAddress("redis://" + settings.addr());
            return config;
        }
        MasterSlaveServersConfig servers = config.useMasterSlaveServers().setMasterAddress("redis://" + settings.addr());
        settings.replicas().forEach(replica -> servers.addSlaveAddress("redis://" + replica));
        return config;
    }

    private Long lock(Request request) throws Exception {
        Client client = clients.get(request.client());
        Owner owner = owner();
        RLock lock = client.settings().fenced() ? client.redisson().getFencedLock(request.name())
                : client.settings().fair() ? client.redisson().getFairLock(request.name())
                : client.redisson().getLock(request.name());
        Future<Long> acquired = owner.thread().submit(() -> {
            if (lock instanceof RFencedLock fenced) {
                return fenced.tryLockAndGetToken(request.limit(), TimeUnit.NANOSECONDS);
            }
            lock.lockInterruptibly();
            return 0L;
        });
        Long token;
        try {
            token = acquired.get(request.limit(), TimeUnit.NANOSECONDS);
        } catch (TimeoutException e) {
            acquired.cancel(true);
            throw new Meaning("refused", "the wait is over");
        } catch (ExecutionException e) {
            throw e.getCause() instanceof Exception cause ? cause : e;
        }
        if (token == null) {
            throw new Meaning("refused", "tryLockAndGetToken returns null");
        }
        holds.put(request.hold(), new Hold(lock, owner, client.settings(), token));
        return token;
    }

    private static Owner owner() throws Exception {
        ExecutorService thread = Executors.newSingleThreadExecutor(Contender::daemon);
        return new Owner(thread, thread.submit(() -> Thread.currentThread().getId()).get());
    }

    private static void check(Hold hold) throws Meaning {
        if (!hold.lock().isHeldByThread(hold.owner().id())) {
            throw new Meaning("gone", "isHeldByThread returns false");
        }
    }

    /** Asks every third of the lease whether the lock is still held, as a caller must who wants to know. */
    private static void lost(Hold hold, long limit) throws Exception {
        long end = System.nanoTime() + limit;
        while (System.nanoTime() < end) {
            TimeUnit.NANOSECONDS.sleep(hold.settings().lease() / 3);
            try {
                check(hold);
            } catch (Meaning e) {
                return;
            } catch (RuntimeException e) { // Redis does not answer
                continue;
            }
        }
        throw new Meaning("silent", "the holder was not told");
    }
}
