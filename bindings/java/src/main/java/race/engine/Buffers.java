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
  static void checkTarget(ByteBuffer target, long count, int valueBytes) {
    if (target.isReadOnly()) {
      throw new ReadOnlyBufferException();
    }
    if (target.remaining() < count * valueBytes) {
      throw new IllegalArgumentException(
          countOf(count) + " take " + count * valueBytes + " bytes, and the buffer has "
              + target.remaining());
    }
  }

  /** A source has so many values and no further bytes. */
  static void checkSource(ByteBuffer source, long count, int valueBytes) {
    if (source.remaining() != count * valueBytes) {
      throw new IllegalArgumentException(
          countOf(count) + " are " + count * valueBytes + " bytes, and the buffer has "
              + source.remaining());
    }
  }

  static void checkSource(byte[] source, int valueBytes) {
    if (source.length != valueBytes) {
      throw new IllegalArgumentException(
          "a value has " + valueBytes + " bytes, not " + source.length);
    }
  }

  static void checkRow(byte[] array, int offset, int valueBytes) {
    Objects.checkFromIndexSize(offset, valueBytes, array.length);
  }

  /** The bytes of a value in a buffer that is not direct. */
  static byte[] copyOf(ByteBuffer source) {
    byte[] copy = new byte[source.remaining()];
    source.get(source.position(), copy);
    return copy;
  }

  private static String countOf(long count) {
    return count == 1 ? "a value's bytes" : count + " values";
  }
}
