package race.engine;

import java.util.Comparator;
import java.util.Objects;

/**
 * Keys as numbers and as bytes.
 *
 * <p>A key is 8 bytes. The calls take it as the number that they are, read big-endian. This number
 * has no sign: {@code -1L} is the greatest key, {@link #MAX}. So numbers and bytes have one order,
 * which is not that of {@link Long#compare}. {@link Long#parseUnsignedLong(String)} and
 * {@link Long#toUnsignedString(long)} read and write such numbers.
 */
public final class Keys {
  /** Bytes of a key. */
  public static final int KEY_BYTES = 8;
  /** Bytes of a value, unless a store is made with other ones. */
  public static final int VALUE_BYTES = 4096;
  /** The least bytes that the values of a store may have. */
  public static final int MIN_VALUE_BYTES = 8;
  /** The most bytes that the values of a store may have. */
  public static final int MAX_VALUE_BYTES = 1 << 20;
  /** The least key. */
  public static final long MIN = 0;
  /** The greatest key, 2^64 - 1. */
  public static final long MAX = -1;
  /** The order of keys in a store. */
  public static final Comparator<Long> ORDER = Long::compareUnsigned;

  private Keys() {}

  /**
   * The key with these bytes.
   *
   * @param bytes 8 bytes
   * @return the number that they are
   * @throws IllegalArgumentException if they are not 8
   */
  public static long of(byte[] bytes) {
    if (bytes.length != KEY_BYTES) {
      throw new IllegalArgumentException("a key has 8 bytes, not " + bytes.length);
    }
    return of(bytes, 0);
  }

  /**
   * The key whose bytes begin at an offset.
   *
   * @param bytes an array with the key in it
   * @param offset where it begins
   * @return the number that its 8 bytes are
   * @throws IndexOutOfBoundsException if the array ends before the key
   */
  public static long of(byte[] bytes, int offset) {
    Objects.checkFromIndexSize(offset, KEY_BYTES, bytes.length);
    long key = 0;
    for (int i = 0; i < KEY_BYTES; i++) {
      key = key << Byte.SIZE | Byte.toUnsignedLong(bytes[offset + i]);
    }
    return key;
  }

  /**
   * The bytes of a key.
   *
   * @param key a number without a sign
   * @return its 8 bytes, in a new array
   */
  public static byte[] toBytes(long key) {
    byte[] bytes = new byte[KEY_BYTES];
    for (int i = KEY_BYTES - 1; i >= 0; i--) {
      bytes[i] = (byte) key;
      key >>>= Byte.SIZE;
    }
    return bytes;
  }

  /**
   * Compares keys in the order of a store.
   *
   * @param a a key
   * @param b another key
   * @return as of {@link Long#compareUnsigned}
   */
  public static int compare(long a, long b) {
    return Long.compareUnsigned(a, b);
  }
}
