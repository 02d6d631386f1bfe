package race.engine;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static race.engine.Stores.valueOf;

import java.nio.ByteBuffer;
import java.nio.ReadOnlyBufferException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class StoreTest {
  @TempDir Path directory;
  private Store store;

  @BeforeEach
  void open() {
    store = Stores.open(directory.resolve("store"));
  }

  @AfterEach
  void close() {
    store.close();
  }

  @Test
  void recordsComeBackAlsoAfterReopening() {
    long[] keys = {Keys.MIN, 1, Long.MAX_VALUE, Long.MIN_VALUE, Keys.MAX};
    for (long key : keys) {
      store.write(key, valueOf(key));
    }
    store.write(1, valueOf(1, 2));
    store.delete(Long.MAX_VALUE);
    store.delete(77);
    for (int round = 0; round < 2; round++) {
      assertArrayEquals(valueOf(Keys.MIN), store.get(Keys.MIN));
      assertArrayEquals(valueOf(1, 2), store.get(1));
      assertNull(store.get(Long.MAX_VALUE));
      assertNull(store.get(77));
      assertArrayEquals(valueOf(Keys.MAX), store.get(Keys.MAX));
      store.close();
      store = Stores.open(directory.resolve("store"));
    }
  }

  @Test
  void aValueIsBytesOfItsOwn() {
    store.write(1, valueOf(1));
    byte[] first = store.get(1);
    first[0]++;
    assertArrayEquals(valueOf(1), store.get(1));
  }

  @Test
  void buffersOfAllKinds() {
    List<ByteBuffer> buffers = List.of(
        ByteBuffer.allocate(5000), ByteBuffer.allocateDirect(5000),
        ByteBuffer.allocate(6000).position(100).slice(),
        ByteBuffer.allocateDirect(6000).position(100).slice());
    long key = 0;
    for (ByteBuffer buffer : buffers) {
      key++;
      buffer.position(7).limit(7 + 4096);
      buffer.put(valueOf(key)).position(7);
      store.write(key, buffer);
      store.write(key + 100, buffer.asReadOnlyBuffer());
      assertEquals(7, buffer.position());
      assertEquals(4096, buffer.remaining());
      assertArrayEquals(valueOf(key), store.get(key));
      assertArrayEquals(valueOf(key), store.get(key + 100));

      for (ByteBuffer target : buffers) {
        target.clear();
        while (target.hasRemaining()) {
          target.put((byte) 99);
        }
        target.position(3);
        assertFalse(store.read(55, target));
        assertEquals(99, target.get(3));
        assertTrue(store.read(key, target));
        assertEquals(3, target.position());
        assertEquals(99, target.get(2));
        assertEquals(99, target.get(3 + 4096));
        byte[] found = new byte[4096];
        target.get(found);
        assertArrayEquals(valueOf(key), found);
        target.clear();
      }
    }
  }

  @Test
  void arraysWithOffsets() {
    byte[] memory = new byte[4096 + 20];
    System.arraycopy(valueOf(3), 0, memory, 13, 4096);
    store.write(3, memory, 13);
    Arrays.fill(memory, (byte) 5);
    assertFalse(store.read(4, memory));
    assertTrue(store.read(3, memory, 20));
    assertEquals(5, memory[19]);
    assertArrayEquals(valueOf(3), Arrays.copyOfRange(memory, 20, 20 + 4096));
    assertTrue(store.read(3, memory));
    assertArrayEquals(valueOf(3), Arrays.copyOf(memory, 4096));
  }

  @Test
  void wrongSizesAreRefusedAndChangeNothing() {
    store.write(1, valueOf(1));
    for (int size : new int[] {0, 1, 4095, 4097, 8192}) {
      assertThrows(IllegalArgumentException.class, () -> store.write(1, new byte[size]));
      assertThrows(IllegalArgumentException.class,
          () -> store.write(1, ByteBuffer.allocate(size)));
      assertThrows(IllegalArgumentException.class,
          () -> store.write(1, ByteBuffer.allocateDirect(size)));
    }
    for (int size : new int[] {0, 1, 4095}) {
      assertThrows(IndexOutOfBoundsException.class, () -> store.read(1, new byte[size]));
      assertThrows(IllegalArgumentException.class,
          () -> store.read(1, ByteBuffer.allocate(size)));
      assertThrows(IllegalArgumentException.class,
          () -> store.read(1, ByteBuffer.allocateDirect(size)));
    }
    byte[] twice = new byte[8192];
    for (int offset : new int[] {-1, 4097, Integer.MAX_VALUE, Integer.MIN_VALUE}) {
      assertThrows(IndexOutOfBoundsException.class, () -> store.write(1, twice, offset));
      assertThrows(IndexOutOfBoundsException.class, () -> store.read(1, twice, offset));
    }
    ByteBuffer readOnly = ByteBuffer.allocateDirect(4096).asReadOnlyBuffer();
    assertThrows(ReadOnlyBufferException.class, () -> store.read(1, readOnly));
    assertThrows(NullPointerException.class, () -> store.write(1, (byte[]) null));
    assertThrows(NullPointerException.class, () -> store.read(1, (ByteBuffer) null));
    assertArrayEquals(valueOf(1), store.get(1));
  }

  @Test
  void callsOfAClosedStoreSaySo() {
    store.write(1, valueOf(1));
    store.close();
    store.close();
    ByteBuffer memory = ByteBuffer.allocateDirect(4096);
    List<Runnable> calls = List.of(
        () -> store.get(1), () -> store.read(1, memory), () -> store.write(1, valueOf(1)),
        () -> store.write(1, memory), () -> store.delete(1), () -> store.readMany(1, 2),
        () -> store.readMany(new long[] {1}, memory, new int[1]),
        () -> store.writeMany(new long[] {1}, memory), () -> store.deleteMany(1),
        () -> store.range(KeyRange.ALL, (key, value) -> true), () -> store.stream(KeyRange.ALL),
        store::snapshot, () -> store.iterator(KeyRange.ALL), () -> store.count(KeyRange.ALL),
        store::sync, () -> store.compact(null), store::stats, store::bucketSpace,
        store::latencies, () -> store.property("stats"),
        () -> store.checkpoint(directory.resolve("other"), null),
        () -> store.backup(directory.resolve("other"), null, null));
    for (int i = 0; i < calls.size(); i++) {
      Exception error = assertThrows(IllegalStateException.class, calls.get(i)::run, "call " + i);
      assertEquals("the store is closed", error.getMessage());
    }
    try (Batch batch = new Batch(Keys.VALUE_BYTES)) {
      assertThrows(IllegalStateException.class, () -> store.write(batch));
    }
    assertFalse(Files.exists(directory.resolve("other")));
  }

  @Test
  void countersAndTexts() {
    Stores.fill(store, 10, 1);
    store.delete(3);
    assertEquals(11, store.stats().get("record_count"));
    assertEquals(16, store.bucketSpace().size());
    assertTrue(store.bucketSpace().stream().mapToLong(BucketSpace::liveBytes).sum() > 0);
    assertTrue(store.property("stats").contains("record_count"));
    assertFalse(store.property("io_backend").isEmpty());
    assertFalse(store.latencies().isMeasured());
    assertEquals(directory.resolve("store"), store.directory());
    assertTrue(Store.libraryVersion().matches("\\d+\\.\\d+\\.\\d+"));
    store.sync();
    store.compact(null);
    assertArrayEquals(valueOf(9), store.get(9));
  }

  @Test
  void latenciesLieWhereTheyBelong() {
    try (Store measured = Store.open(
        directory.resolve("measured"), Stores.small().latencyStats(true))) {
      Stores.fill(measured, 5, 1);
      measured.get(1);
      measured.get(2);
      measured.range(KeyRange.ALL, (key, value) -> true);
      measured.sync();
      measured.sync();
      measured.sync();
      Latencies found = measured.latencies();
      assertTrue(found.isMeasured());
      assertEquals(5, found.write().count());
      assertEquals(2, found.read().count());
      assertEquals(1, found.range().count());
      assertEquals(3, found.sync().count());
      assertEquals(0, found.multiRead().count());
      assertEquals(0, found.asyncRead().count());
      assertTrue(found.read().maxNs() >= found.read().p50Ns() && found.read().meanNs() > 0);
    }
  }
}
