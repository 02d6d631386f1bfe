package race.engine;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static race.engine.Stores.valueOf;

import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class BatchTest {
  @TempDir Path directory;

  @Test
  void aBatchIsWrittenAsAWhole() {
    try (Store store = Stores.open(directory.resolve("store"));
        Batch batch = new Batch(store.valueBytes())) {
      store.write(1, valueOf(1));
      ByteBuffer direct = ByteBuffer.allocateDirect(4100).position(4).put(valueOf(3)).position(4);
      batch.reserve(4, 1).write(2, valueOf(2)).write(3, direct).delete(1)
          .write(4, ByteBuffer.wrap(valueOf(4)).asReadOnlyBuffer()).write(2, valueOf(2, 7));
      direct.put(4, (byte) 99);
      assertEquals(5, batch.size());
      assertNull(store.get(2));
      store.write(batch);
      assertNull(store.get(1));
      assertArrayEquals(valueOf(2, 7), store.get(2));
      assertArrayEquals(valueOf(3), store.get(3));
      assertArrayEquals(valueOf(4), store.get(4));
      store.deleteMany(2, 3, 4);
      store.write(batch.clear());
      assertEquals(0, batch.size());
      assertEquals(0, store.count(KeyRange.ALL));
    }
  }

  @Test
  void manyAtOnceFromTheHeapAndFromOutside() {
    long[] keys = LongStream.range(0, 2100).toArray();
    for (boolean isDirect : new boolean[] {true, false}) {
      Path path = directory.resolve("store" + isDirect);
      try (Store store = Stores.open(path); Batch batch = new Batch(Keys.VALUE_BYTES)) {
        ByteBuffer values = Stores.valuesOf(keys, isDirect);
        batch.writeMany(keys, values);
        assertEquals(keys.length, batch.size());
        store.write(batch);
        assertEquals(keys.length, store.count(KeyRange.ALL));
        assertArrayEquals(valueOf(2099), store.get(2099));
        assertThrows(IllegalArgumentException.class,
            () -> batch.writeMany(new long[keys.length - 1], values));
      }
    }
  }

  @Test
  void callsOfAClosedBatchSaySo() {
    Batch batch = new Batch(Keys.VALUE_BYTES);
    assertThrows(IllegalArgumentException.class, () -> batch.write(1, new byte[4095]));
    assertThrows(IllegalArgumentException.class, () -> batch.write(1, ByteBuffer.allocate(4097)));
    assertThrows(IllegalArgumentException.class, () -> batch.reserve(-1, 0));
    assertEquals(0, batch.size());
    batch.close();
    batch.close();
    try (Store store = Stores.open(directory.resolve("store"))) {
      for (Runnable call : List.<Runnable>of(
          () -> batch.write(1, valueOf(1)), () -> batch.delete(1), batch::size, batch::clear,
          () -> batch.writeMany(new long[0], ByteBuffer.allocate(0)), () -> batch.reserve(1, 1),
          () -> store.write(batch))) {
        assertThrows(IllegalStateException.class, call::run);
      }
    }
  }
}
