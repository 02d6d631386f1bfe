package race.engine;

import java.nio.ByteBuffer;
import java.nio.ReadOnlyBufferException;
import java.util.Objects;

/**
 * Checks of memory that a program gives. Values go to a buffer's position and on, or come from
 * there; the position stays as it is.
 */
final class Buffers {
  private Buffers() {}

  /** A target has room for so many values at least. */
  static void checkTarget(ByteBuffer target, long count) {
    if (target.isReadOnly()) {
      throw new ReadOnlyBufferException();
    }
    if (target.remaining() < count * Keys.VALUE_BYTES) {
      throw new IllegalArgumentException(
          countOf(count) + " take " + count * Keys.VALUE_BYTES + " bytes, and the buffer has "
              + target.remaining());
    }
  }

  /** A source has so many values and no further bytes. */
  static void checkSource(ByteBuffer source, long count) {
    if (source.remaining() != count * Keys.VALUE_BYTES) {
      throw new IllegalArgumentException(
          countOf(count) + " are " + count * Keys.VALUE_BYTES + " bytes, and the buffer has "
              + source.remaining());
    }
  }

  static void checkSource(byte[] source) {
    if (source.length != Keys.VALUE_BYTES) {
      throw new IllegalArgumentException("a value has 4096 bytes, not " + source.length);
    }
  }

  static void checkRow(byte[] array, int offset) {
    Objects.checkFromIndexSize(offset, Keys.VALUE_BYTES, array.length);
  }

  /** The bytes of a value in a buffer that is not direct. */
  static byte[] copyOf(ByteBuffer source) {
    byte[] copy = new byte[Keys.VALUE_BYTES];
    source.get(source.position(), copy);
    return copy;
  }

  private static String countOf(long count) {
    return count == 1 ? "a value's bytes" : count + " values";
  }
}
