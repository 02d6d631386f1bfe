package race.engine;

/**
 * The counts of a verification or of a copy.
 *
 * @param recordCount records that were read, overwritten records and deletions included
 * @param badCount records that are damaged
 * @param lostTailCount records that the next opening cuts off, because a power loss has taken them
 * @param indexRecordCount records of the index on disk that were compared
 * @param indexUnusableBucketCount buckets whose index must be built anew
 */
public record VerifyReport(
    long recordCount, long badCount, long lostTailCount, long indexRecordCount,
    long indexUnusableBucketCount) {
  static final int NUMBERS = 5;

  static VerifyReport of(long[] numbers) {
    return new VerifyReport(numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]);
  }
}
