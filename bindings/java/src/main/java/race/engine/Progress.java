package race.engine;

/**
 * Is told how far a long call is, and may cancel it.
 *
 * <p>A cancelled call begins no further piece, cleans up, and throws an {@link EngineRaceException}
 * of code {@link Code#INCOMPLETE}. A progress that looks at a flag, or at
 * {@link Thread#interrupted()}, lets another thread cancel.
 */
@FunctionalInterface
public interface Progress {
  /**
   * Called after each piece of the call, in the thread that made it. It may call the store, but not
   * close it. In {@link Store#compact(Progress)} it may not write to the store or compact it: that
   * would wait for itself. An exception cancels the call and comes out of it.
   *
   * @param doneCount how many records are done
   * @param mostCount a number that {@code doneCount} does not exceed
   * @return whether the call goes on; false cancels it, even if all is done by then
   */
  boolean advance(long doneCount, long mostCount);
}
