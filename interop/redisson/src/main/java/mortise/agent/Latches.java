package mortise.agent;

import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RCountDownLatch;

/** The commands of {@link RCountDownLatch}: {@code latch.VERB NAME [argument...]}. */
final class Latches {
    private Latches() {
    }

    static void register(Map<String, Command> commands) {
        // latch.trySetCount NAME N.
        commands.put("latch.trySetCount", call -> open(call).trySetCount(call.number(1)));
        commands.put("latch.getCount", call -> open(call).getCount());
        commands.put("latch.delete", call -> open(call).delete());
        commands.put("latch.await", Latches::await);
        commands.put("latch.countDown", call -> {
            open(call).countDown();
            return null;
        });
    }

    private static RCountDownLatch open(Call call) {
        return call.redisson().getCountDownLatch(call.text(0));
    }

    /** latch.await NAME [waitMs]: whether the count was zero in time. */
    private static Object await(Call call) throws InterruptedException {
        if (call.has(1)) {
            return open(call).await(call.number(1), TimeUnit.MILLISECONDS);
        }
        open(call).await();
        return true;
    }
}
