package mortise.agent;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import java.io.PrintStream;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Writes the answers, one line of JSON each, whole lines even when several threads answer at once:
 *
 * <pre>{"id":"7","ok":true,"startMs":12.345,"elapsedMs":0.678,"result":...}
 * {"id":"8","ok":false,"startMs":13.0,"elapsedMs":0.5,"error":{"class":"java.lang....","message":"..."}}</pre>
 *
 * Times are of this process's monotonic clock, counted from its start: only differences mean something elsewhere.
 */
final class Answers {
    private final Gson json = new GsonBuilder().serializeNulls().disableHtmlEscaping().create();
    private final PrintStream out;
    private final long epoch = System.nanoTime();

    Answers(PrintStream out) {
        this.out = out;
    }

    void succeeded(String id, long start, Object result) {
        Map<String, Object> answer = begin(id, true, start);
        answer.put("result", result);
        write(answer);
    }

    void failed(String id, long start, Throwable failure) {
        Map<String, Object> answer = begin(id, false, start);
        Map<String, Object> error = new LinkedHashMap<>();
        error.put("class", failure.getClass().getName());
        error.put("message", failure.getMessage());
        answer.put("error", error);
        write(answer);
    }

    private Map<String, Object> begin(String id, boolean ok, long start) {
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("id", id);
        answer.put("ok", ok);
        answer.put("startMs", Nanos.toMillis(start - epoch));
        answer.put("elapsedMs", Nanos.toMillis(System.nanoTime() - start));
        return answer;
    }

    private synchronized void write(Map<String, Object> answer) {
        out.println(json.toJson(answer));
        out.flush();
    }
}
