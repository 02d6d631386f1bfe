package race.engine;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.ByteBuffer;
import java.nio.file.Path;

/** Small stores for tests, and values that say which they are. */
final class Stores {
  private Stores() {}

  static Options small() {
    return new Options().memoryBudgetBytes(64L << 20).bucketCount(16).fileCount(4);
  }

  static Store open(Path directory) {
    return Store.open(directory, small());
  }

  /** Each of its 16-byte pieces has the number and the version. */
  static byte[] valueOf(long number, long version) {
    ByteBuffer value = ByteBuffer.allocate(Keys.VALUE_BYTES);
    while (value.hasRemaining()) {
      value.putLong(number).putLong(version);
    }
    return value.array();
  }

  static byte[] valueOf(long number) {
    return valueOf(number, 0);
  }

  /** Checks that the bytes from a place on are one value, and no mixture. */
  static void checkValue(ByteBuffer memory, int at, long number, long version) {
    for (int i = at; i < at + Keys.VALUE_BYTES; i += 2 * Long.BYTES) {
      assertEquals(number, memory.getLong(i));
      assertEquals(version, memory.getLong(i + Long.BYTES));
    }
  }

  /** Writes the keys 0, step, 2 * step and so on. */
  static void fill(Store store, int count, long step) {
    for (int i = 0; i < count; i++) {
      store.write(i * step, valueOf(i * step));
    }
  }

  static ByteBuffer valuesOf(long[] keys, boolean isDirect) {
    int size = keys.length * Keys.VALUE_BYTES;
    ByteBuffer values = isDirect ? ByteBuffer.allocateDirect(size) : ByteBuffer.allocate(size);
    for (long key : keys) {
      values.put(valueOf(key));
    }
    return values.flip();
  }
}
