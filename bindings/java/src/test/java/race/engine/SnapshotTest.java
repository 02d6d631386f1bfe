package race.engine;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static race.engine.Stores.valueOf;

import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class SnapshotTest {
  @TempDir Path directory;
  private Store store;

  @BeforeEach
  void open() {
    store = Stores.open(directory.resolve("store"));
    Stores.fill(store, 100, 1);
  }

  @AfterEach
  void close() {
    store.close();
  }

  @Test
  void aSnapshotShowsOneState() {
    try (Snapshot snapshot = store.snapshot()) {
      store.write(1, valueOf(1, 9));
      store.delete(2);
      store.write(1000, valueOf(1000));
      assertArrayEquals(valueOf(1), snapshot.get(1));
      assertArrayEquals(valueOf(2), snapshot.get(2));
      assertNull(snapshot.get(1000));
      ByteBuffer memory = ByteBuffer.allocateDirect(4096);
      assertTrue(snapshot.read(1, memory));
      Stores.checkValue(memory, 0, 1, 0);
      byte[][] found = snapshot.readMany(1, 1000, 2);
      assertArrayEquals(valueOf(1), found[0]);
      assertNull(found[1]);
      assertArrayEquals(valueOf(2), found[2]);
      assertEquals(100, snapshot.count(KeyRange.ALL));
      List<Long> keys = new ArrayList<>();
      snapshot.range(KeyRange.of(1, 4), (key, value) -> {
        Stores.checkValue(value, 0, key, 0);
        return keys.add(key);
      });
      assertEquals(List.of(1L, 2L, 3L), keys);
      try (Stream<Entry> entries = snapshot.stream(KeyRange.from(99))) {
        assertEquals(1, entries.count());
      }
    }
    assertNull(store.get(2));
  }

  @Test
  void anIteratorOutlivesItsSnapshot() {
    Snapshot snapshot = store.snapshot();
    StoreIterator at = snapshot.iterator(KeyRange.ALL);
    snapshot.close();
    store.write(1, valueOf(1, 9));
    at.seek(1);
    assertArrayEquals(valueOf(1), at.value());
    at.close();
  }

  @Test
  void aVisitorMayCloseItsSnapshot() {
    Snapshot snapshot = store.snapshot();
    List<Long> keys = new ArrayList<>();
    snapshot.range(KeyRange.ALL, (key, value) -> {
      snapshot.close();
      assertThrows(IllegalStateException.class, () -> snapshot.get(1));
      Stores.checkValue(value, 0, key, 0);
      return keys.add(key);
    });
    assertEquals(100, keys.size());
  }

  @Test
  void callsOfAClosedSnapshotSaySo() {
    Snapshot closed = store.snapshot();
    closed.close();
    closed.close();
    Snapshot ended = store.snapshot();
    store.close();
    for (Snapshot snapshot : List.of(closed, ended)) {
      for (Runnable call : List.<Runnable>of(
          () -> snapshot.get(1), () -> snapshot.read(1, ByteBuffer.allocateDirect(4096)),
          () -> snapshot.readMany(1), () -> snapshot.iterator(KeyRange.ALL),
          () -> snapshot.range(KeyRange.ALL, (key, value) -> true))) {
        assertThrows(IllegalStateException.class, call::run);
      }
      snapshot.close();
    }
  }
}
