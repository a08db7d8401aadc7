package mortise.bench;

import com.google.gson.annotations.SerializedName;
import java.util.List;

/** The benchmark's workload.Result, as far as a JVM can tell. */
final class Result {
    double seconds;
    long[] counts;
    @SerializedName("hand_overs")
    long handOvers;
    long across;
    long overlaps;
    long failures;
    String failure;
    int hung;
    double inside;
    List<long[]> waits;
    List<long[]> gaps;
    @SerializedName("across_gap")
    List<long[]> acrossGap;
    @SerializedName("alloc_bytes")
    long allocBytes;
    double cpu;
}
