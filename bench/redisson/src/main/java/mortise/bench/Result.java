package mortise.bench;

import com.google.gson.annotations.SerializedName;
import java.util.ArrayList;
import java.util.List;

/** The benchmark's workload.Result, as far as a JVM can tell. */
final class Result {
    double seconds;
    List<Long> counts = new ArrayList<>();
    List<Long> writers = new ArrayList<>();
    @SerializedName("hand_overs")
    long handOvers;
    long across;
    long overlaps;
    long failures;
    String failure;
    int hung;
    double inside;
    double busy;
    List<long[]> waits;
    @SerializedName("write_waits")
    List<long[]> writeWaits;
    List<long[]> gaps;
    @SerializedName("across_gap")
    List<long[]> acrossGap;
    @SerializedName("alloc_bytes")
    long allocBytes;
    double cpu;
}
