package race.engine;

/**
 * How long the calls or steps of one kind took since the store was opened. Percentiles are right to
 * within 1/32.
 *
 * @param count how many there were
 * @param meanNs nanoseconds on average
 * @param p50Ns nanoseconds that half of them did not exceed
 * @param p95Ns nanoseconds that 95 % of them did not exceed
 * @param p99Ns nanoseconds that 99 % of them did not exceed
 * @param p999Ns nanoseconds that 99.9 % of them did not exceed
 * @param maxNs nanoseconds of the longest one
 */
public record Latency(
    long count, long meanNs, long p50Ns, long p95Ns, long p99Ns, long p999Ns, long maxNs) {
  static final int NUMBERS = 7;

  static Latency of(long[] numbers, int at) {
    return new Latency(
        numbers[at], numbers[at + 1], numbers[at + 2], numbers[at + 3], numbers[at + 4],
        numbers[at + 5], numbers[at + 6]);
  }
}
