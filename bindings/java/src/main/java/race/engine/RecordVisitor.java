package race.engine;

import java.nio.ByteBuffer;

/**
 * Is given the records of a range, one after the other, in order of key.
 *
 * @param <X> exceptions that it may throw; inferred as {@link RuntimeException} for a visitor that
 *     throws nothing checked
 */
@FunctionalInterface
public interface RecordVisitor<X extends Exception> {
  /**
   * Visits a record. It may call the store, but not close it. An exception ends the walk and comes
   * out of the call of the range.
   *
   * @param key a number without a sign
   * @param value its bytes, from position 0 on. The buffer is direct and read-only. Its bytes are
   *     good until this returns, and other ones afterwards.
   * @return whether the walk goes on
   * @throws X to end the walk
   */
  boolean visit(long key, ByteBuffer value) throws X;
}
