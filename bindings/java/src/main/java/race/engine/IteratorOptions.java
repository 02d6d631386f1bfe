package race.engine;

import java.util.Objects;

/**
 * How an iterator walks.
 *
 * @param range the keys that it shows
 * @param prefetchRecords values that are read at once, 1 to 64; 0: as many as the walk asks for
 * @param refreshEverySteps after as many steps it moves on to the latest state; 0: never
 */
public record IteratorOptions(KeyRange range, int prefetchRecords, long refreshEverySteps) {
  /** All keys, at the state of the call. */
  public static final IteratorOptions DEFAULT = of(KeyRange.ALL);

  /**
   * Refuses null and numbers outside of their ranges.
   *
   * @param range the keys that it shows
   * @param prefetchRecords values that are read at once
   * @param refreshEverySteps steps between two states
   */
  public IteratorOptions {
    Objects.requireNonNull(range, "range");
    if (prefetchRecords < 0 || prefetchRecords > 64) {
      throw new IllegalArgumentException("prefetchRecords is 0 to 64, not " + prefetchRecords);
    }
    if (refreshEverySteps < 0) {
      throw new IllegalArgumentException("refreshEverySteps is not negative");
    }
  }

  /**
   * Keys of a range, at the state of the call.
   *
   * @param range the keys that the iterator shows
   * @return options with defaults otherwise
   */
  public static IteratorOptions of(KeyRange range) {
    return new IteratorOptions(range, 0, 0);
  }
}
