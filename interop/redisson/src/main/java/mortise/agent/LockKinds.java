package mortise.agent;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/**
 * The kinds of {@link RLock}, and what names a lock of each:
 *
 * <ul>
 *   <li>{@code NAME} for the plain lock and for fair, read, write (of one read/write lock), fenced, spin,
 *       nonreentrant, nonreentrantfair.
 *   <li>{@code multi}: {@code [KIND:]NAME,[KIND:]NAME...}, a MultiLock of such locks.
 *   <li>{@code redlock}: {@code NAME}, a RedLock of the plain locks of that name on the servers of {@code --redlock}.
 *   <li>{@code servers}: {@code NAME}, a MultiLock of the same ones: all servers, not most.
 *   <li>{@code group}: {@code GROUP VALUE,VALUE...}, the MultiLock that keeps one group in one hash.
 * </ul>
 */
final class LockKinds {
    /** A kind of lock: how many arguments name one, and how it is opened. */
    record Kind(int words, Opener opener) {
        RLock open(Call call) throws Exception {
            return opener.open(call);
        }
    }

    private interface Opener {
        RLock open(Call call) throws Exception;
    }

    private interface Named {
        RLock open(RedissonClient redisson, String name) throws Exception;
    }

    /** The kinds that a name alone stands for, which may be members of others. */
    private static final Map<String, Named> NAMED = new LinkedHashMap<>();

    static final Map<String, Kind> ALL = new LinkedHashMap<>();

    static {
        NAMED.put("", RedissonClient::getLock);
        NAMED.put("fair", RedissonClient::getFairLock);
        NAMED.put("read", (redisson, name) -> redisson.getReadWriteLock(name).readLock());
        NAMED.put("write", (redisson, name) -> redisson.getReadWriteLock(name).writeLock());
        NAMED.put("spin", RedissonClient::getSpinLock);
        NAMED.put("fenced", (redisson, name) -> (RLock) Reflect.call(redisson, "getFencedLock", name));
        NAMED.put("nonreentrant", (redisson, name) -> (RLock) Reflect.call(redisson, "getNonReentrantLock", name));
        NAMED.put("nonreentrantfair", (redisson, name) -> (RLock) Reflect.call(redisson, "getNonReentrantFairLock", name));
        NAMED.forEach((kind, open) -> ALL.put(kind, new Kind(1, call -> open.open(call.redisson(), call.text(0)))));

        ALL.put("multi", new Kind(1, call -> call.redisson().getMultiLock(members(call))));
        ALL.put("redlock", new Kind(1, LockKinds::redlock));
        ALL.put("servers", new Kind(1, call -> call.redisson().getMultiLock(onServers(call))));
        ALL.put("group", new Kind(2, call -> (RLock) Reflect.call(
                call.redisson(), "getMultiLock", call.text(0), new ArrayList<Object>(call.list(1)))));
    }

    private LockKinds() {
    }

    private static RLock[] members(Call call) throws Exception {
        List<RLock> locks = new ArrayList<>();
        for (String member : call.list(0)) {
            String[] parts = member.split(":", 2);
            boolean plain = parts.length == 1 || !NAMED.containsKey(parts[0]);
            locks.add(plain ? call.redisson().getLock(member) : NAMED.get(parts[0]).open(call.redisson(), parts[1]));
        }
        return locks.toArray(RLock[]::new);
    }

    @SuppressWarnings("deprecation") // by Redisson, and still in use
    private static RLock redlock(Call call) {
        return call.redisson().getRedLock(onServers(call));
    }

    private static RLock[] onServers(Call call) {
        if (call.servers().isEmpty()) {
            throw new IllegalStateException(call.command() + " needs an agent that was started with --redlock");
        }
        return call.servers().stream().map(server -> server.getLock(call.text(0))).toArray(RLock[]::new);
    }
}
