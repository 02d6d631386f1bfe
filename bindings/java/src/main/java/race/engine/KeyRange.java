package race.engine;

import java.util.Objects;
import java.util.OptionalLong;

/**
 * The keys from a lower bound on and below an upper one, in the unsigned order of {@link Keys}. A
 * range whose lower bound is not below its upper one is empty.
 *
 * @param lower the least key of the range; empty: open
 * @param upper the least key behind the range; empty: open
 */
public record KeyRange(OptionalLong lower, OptionalLong upper) {
  /** All keys. */
  public static final KeyRange ALL = new KeyRange(OptionalLong.empty(), OptionalLong.empty());

  /**
   * Refuses null.
   *
   * @param lower the least key of the range; empty: open
   * @param upper the least key behind the range; empty: open
   */
  public KeyRange {
    Objects.requireNonNull(lower, "lower");
    Objects.requireNonNull(upper, "upper");
  }

  /**
   * The keys from one on and below another.
   *
   * @param lower belongs to the range
   * @param upper does not belong to it
   * @return the range
   */
  public static KeyRange of(long lower, long upper) {
    return new KeyRange(OptionalLong.of(lower), OptionalLong.of(upper));
  }

  /**
   * The keys from one on.
   *
   * @param lower belongs to the range
   * @return the range
   */
  public static KeyRange from(long lower) {
    return new KeyRange(OptionalLong.of(lower), OptionalLong.empty());
  }

  /**
   * The keys below one.
   *
   * @param upper does not belong to the range
   * @return the range
   */
  public static KeyRange below(long upper) {
    return new KeyRange(OptionalLong.empty(), OptionalLong.of(upper));
  }
}
