package mortise.bench;

import java.util.concurrent.TimeUnit;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;

/** A kind of lock of Redisson, under the name by which the benchmark asks for it. */
enum Kind {
    LOCK("Redisson") {
        @Override
        Entrance of(RedissonClient redisson, String key, Role role) {
            return entrance(redisson.getLock(key));
        }
    },
    FAIR("Redisson fair") {
        @Override
        Entrance of(RedissonClient redisson, String key, Role role) {
            return entrance(redisson.getFairLock(key));
        }
    },
    READ_WRITE("Redisson RReadWriteLock") {
        @Override
        Entrance of(RedissonClient redisson, String key, Role role) {
            RReadWriteLock lock = redisson.getReadWriteLock(key);
            return entrance(role == Role.READING ? lock.readLock() : lock.writeLock());
        }
    },
    SEMAPHORE("Redisson RSemaphore") {
        @Override
        Entrance of(RedissonClient redisson, String key, Role role) {
            RSemaphore semaphore = redisson.getSemaphore(key);
            return new Entrance() {
                @Override
                public void enter() throws InterruptedException {
                    semaphore.acquire();
                }

                @Override
                public void leave() {
                    semaphore.release();
                }
            };
        }

        @Override
        void permit(RedissonClient redisson, String key, int permits) {
            redisson.getSemaphore(key).trySetPermits(permits);
        }
    },
    PERMITS("Redisson RPermitExpirableSemaphore") {
        @Override
        Entrance of(RedissonClient redisson, String key, Role role) {
            RPermitExpirableSemaphore semaphore = redisson.getPermitExpirableSemaphore(key);
            return new Entrance() {
                private String permit;

                @Override
                public void enter() throws InterruptedException {
                    permit = semaphore.acquire(LEASE_SECONDS, TimeUnit.SECONDS);
                }

                @Override
                public void leave() {
                    semaphore.release(permit);
                }
            };
        }

        @Override
        void permit(RedissonClient redisson, String key, int permits) {
            redisson.getPermitExpirableSemaphore(key).trySetPermits(permits);
        }
    };

    private static final long LEASE_SECONDS = 30;

    private final String system;

    Kind(String system) {
        this.system = system;
    }

    static Kind of(String system) {
        for (Kind kind : values()) {
            if (kind.system.equals(system)) {
                return kind;
            }
        }
        throw new IllegalArgumentException("there is no system " + system);
    }

    /** What a thread in this role acquires. */
    abstract Entrance of(RedissonClient redisson, String key, Role role);

    /** Sets the number of permits, unless that was done before. */
    void permit(RedissonClient redisson, String key, int permits) {
        throw new IllegalArgumentException(system + " has no permits");
    }

    private static Entrance entrance(RLock lock) {
        return new Entrance() {
            @Override
            public void enter() throws InterruptedException {
                lock.lockInterruptibly();
            }

            @Override
            public void leave() {
                lock.unlock();
            }
        };
    }
}
