package race.engine;

/**
 * How long calls of a store took. Calls of its snapshots are included.
 *
 * @param isMeasured whether the option {@code latency_stats} is on; else all counts are 0
 * @param read of one key
 * @param multiRead whole calls that read many keys
 * @param asyncRead from the start of a read until the engine has its end
 * @param write also deletions; of many in one call, each record
 * @param range whole calls, with their visits
 * @param sync calls
 * @param groupWrite the write of a full group from staging to its log
 * @param flush of a log file or of the journal to the device
 */
public record Latencies(
    boolean isMeasured, Latency read, Latency multiRead, Latency asyncRead, Latency write,
    Latency range, Latency sync, Latency groupWrite, Latency flush) {
  static final int NUMBERS = 1 + 8 * Latency.NUMBERS;

  static Latencies of(long[] numbers) {
    Latency[] all = new Latency[8];
    for (int i = 0; i < all.length; i++) {
      all[i] = Latency.of(numbers, 1 + i * Latency.NUMBERS);
    }
    return new Latencies(
        numbers[0] != 0, all[0], all[1], all[2], all[3], all[4], all[5], all[6], all[7]);
  }
}
