package race.engine;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.ForkJoinPool;
import java.util.stream.Collectors;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Stores whose values have other sizes than 4096 bytes. */
class ValueBytesTest {
  @TempDir Path directory;

  private Store open(int size) {
    return Store.open(directory.resolve("store"), Stores.small().valueBytes(size));
  }

  /** Seven bytes that tell the key, again and again: they fit into none of the sizes. */
  private static byte[] valueOf(long key, int size) {
    byte[] value = new byte[size];
    for (int i = 0; i < size; i++) {
      value[i] = (byte) ((key * 251 + 7) >>> 8 * (i % 7));
    }
    return value;
  }

  private static long[] keysFor(int size) {
    return LongStream.range(0, size == 1 << 20 ? 40 : 300).toArray();
  }

  private static ByteBuffer valuesOf(long[] keys, int size, boolean isDirect) {
    ByteBuffer values = isDirect
        ? ByteBuffer.allocateDirect(keys.length * size) : ByteBuffer.allocate(keys.length * size);
    for (long key : keys) {
      values.put(valueOf(key, size));
    }
    return values.flip();
  }

  @ParameterizedTest
  @ValueSource(ints = {8, 100, 512, 1536, 3072, 4096, 16384, 1 << 20})
  void recordsComeBack(int size) throws Exception {
    long[] keys = keysFor(size);
    long missing = keys.length;
    try (Store store = open(size)) {
      assertEquals(size, store.valueBytes());
      for (long key : keys) {
        store.write(key, valueOf(key, size));
      }
      store.write(3, ByteBuffer.allocateDirect(size).put(valueOf(3, size)).flip());
      store.write(4, ByteBuffer.wrap(valueOf(4, size)));
    }
    // The size of an existing store need not be told.
    try (Store store = Stores.open(directory.resolve("store"))) {
      assertEquals(size, store.valueBytes());
      byte[] row = new byte[size + 2];
      ByteBuffer direct = ByteBuffer.allocateDirect(size);
      for (long key : keys) {
        assertArrayEquals(valueOf(key, size), store.get(key));
        assertTrue(store.read(key, row, 1));
        assertEquals(ByteBuffer.wrap(valueOf(key, size)), ByteBuffer.wrap(row, 1, size));
        assertTrue(store.read(key, direct));
        assertEquals(ByteBuffer.wrap(valueOf(key, size)), direct);
      }
      assertEquals(0, row[0] + row[size + 1]);
      assertNull(store.get(missing));
      assertArrayEquals(valueOf(5, size), store.readAsync(5).get());
      assertNull(store.readAsync(missing).get());
      assertTrue(store.readAsync(6, direct, ForkJoinPool.commonPool()).get());
      assertEquals(ByteBuffer.wrap(valueOf(6, size)), direct);
      try (Snapshot snapshot = store.snapshot()) {
        assertEquals(size, snapshot.valueBytes());
        assertArrayEquals(valueOf(9, size), snapshot.get(9));
      }
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {8, 100, 512, 1536, 3072, 4096, 16384, 1 << 20})
  void manyAtOnce(int size) {
    long[] keys = keysFor(size);
    for (boolean isDirect : new boolean[] {true, false}) {
      try (Store store = open(size)) {
        ByteBuffer values = valuesOf(keys, size, isDirect);
        store.writeMany(keys, values);
        ByteBuffer found = isDirect
            ? ByteBuffer.allocateDirect(values.capacity()) : ByteBuffer.allocate(values.capacity());
        assertEquals(keys.length, store.readMany(keys, found, new int[keys.length]));
        assertEquals(values, found);
        byte[][] some = store.readMany(5, keys.length, 7);
        assertArrayEquals(valueOf(5, size), some[0]);
        assertNull(some[1]);
        assertArrayEquals(valueOf(7, size), some[2]);
        store.deleteMany(keys);
      }
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {8, 100, 512, 1536, 3072, 4096, 16384, 1 << 20})
  void walks(int size) {
    long[] keys = keysFor(size);
    try (Store store = open(size)) {
      store.writeMany(keys, valuesOf(keys, size, true));
      long[] next = {0};
      store.range(KeyRange.ALL, (key, value) -> {
        assertEquals(next[0]++, key);
        assertEquals(ByteBuffer.wrap(valueOf(key, size)), value);
        return true;
      });
      assertEquals(keys.length, next[0]);
      try (Stream<Entry> entries = store.stream(KeyRange.from(2))) {
        List<Entry> found = entries.collect(Collectors.toList());
        assertEquals(keys.length - 2, found.size());
        for (int i = 0; i < found.size(); i++) {
          assertEquals(i + 2, found.get(i).key());
          assertArrayEquals(valueOf(i + 2, size), found.get(i).value());
        }
      }
      try (Stream<Entry> entries = store.descendingStream(KeyRange.ALL)) {
        Entry last = entries.findFirst().orElseThrow();
        assertArrayEquals(valueOf(keys.length - 1, size), last.value());
      }
      try (StoreIterator at = store.iterator(KeyRange.ALL)) {
        assertTrue(at.seek(7));
        assertArrayEquals(valueOf(7, size), at.value());
        ByteBuffer direct = ByteBuffer.allocateDirect(size);
        at.value(direct);
        assertEquals(ByteBuffer.wrap(valueOf(7, size)), direct);
        ByteBuffer rows = ByteBuffer.allocate(5 * size);
        assertEquals(5, at.take(new long[5], rows));
        assertEquals(valuesOf(new long[] {7, 8, 9, 10, 11}, size, false), rows);
      }
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {8, 100, 512, 1536, 3072, 4096, 16384, 1 << 20})
  void memoryOfOtherSizesIsRefused(int size) {
    try (Store store = open(size); Batch batch = new Batch(size)) {
      for (int other : new int[] {0, size - 1, size + 1}) {
        byte[] array = new byte[other];
        ByteBuffer buffer = ByteBuffer.allocateDirect(other);
        IllegalArgumentException error = assertThrows(
            IllegalArgumentException.class, () -> store.write(1, array));
        assertEquals("a value has " + size + " bytes, not " + other, error.getMessage());
        assertThrows(IllegalArgumentException.class, () -> store.write(1, buffer));
        assertThrows(IllegalArgumentException.class, () -> batch.write(1, array));
        assertThrows(IllegalArgumentException.class, () -> batch.write(1, buffer));
        assertThrows(
            IllegalArgumentException.class, () -> batch.writeMany(new long[] {1}, buffer));
        assertThrows(
            IllegalArgumentException.class, () -> store.writeMany(new long[] {1}, buffer));
        if (other < size) {
          assertThrows(IndexOutOfBoundsException.class, () -> store.read(1, array));
          assertThrows(IllegalArgumentException.class, () -> store.read(1, buffer));
        }
      }
      assertEquals(0, batch.size());
      assertEquals(0, store.count(KeyRange.ALL));
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {8, 100, 512, 1536, 3072, 4096, 16384, 1 << 20})
  void batchesFitStoresOfTheirSize(int size) {
    try (Store store = open(size); Batch batch = new Batch(size);
        Batch other = new Batch(size == 512 ? 513 : 512)) {
      long[] keys = {2, 3};
      batch.write(1, valueOf(1, size)).writeMany(keys, valuesOf(keys, size, false));
      store.write(batch);
      for (long key = 1; key <= 3; key++) {
        assertArrayEquals(valueOf(key, size), store.get(key));
      }
      other.delete(1);
      EngineRaceException error =
          assertThrows(EngineRaceException.class, () -> store.write(other));
      assertEquals(Code.INVALID_ARGUMENT, error.code());
      assertTrue(error.getMessage().contains("" + size), error::getMessage);
      assertEquals(3, store.count(KeyRange.ALL));
    }
  }

  @Test
  void aStoreKeepsItsSize() {
    Path path = directory.resolve("store");
    assertEquals("0", new Options().get("value_bytes"));
    open(512).close();
    EngineRaceException error = assertThrows(EngineRaceException.class, () -> open(4096));
    assertEquals(Code.INVALID_ARGUMENT, error.code());
    assertTrue(error.getMessage().contains("512"), error::getMessage);
    open(512).close();
    for (int size : new int[] {Keys.MIN_VALUE_BYTES - 1, Keys.MAX_VALUE_BYTES + 1}) {
      assertThrows(EngineRaceException.class, () ->
          Store.open(directory.resolve("another"), Stores.small().valueBytes(size)));
      assertThrows(IllegalArgumentException.class, () -> new Batch(size));
    }
    assertEquals(0, ClosedStores.verify(path, Stores.small().valueBytes(4096), null).badCount());
    try (Store store = Stores.open(directory.resolve("default"))) {
      assertEquals(Keys.VALUE_BYTES, store.valueBytes());
      assertFalse(store.read(1, new byte[4096]));
    }
  }
}
