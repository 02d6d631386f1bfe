package race.engine;

/**
 * Space on disk that the values of a bucket take, as far as known.
 *
 * @param liveBytes bytes of live records
 * @param deadBytes bytes of overwritten and deleted records
 */
public record BucketSpace(long liveBytes, long deadBytes) {}
