package race.engine;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.fail;
import static race.engine.Stores.valueOf;

import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class LifetimeTest {
  @TempDir Path directory;

  /** Stores, snapshots, iterators and batches that nobody closes. */
  private static void drop(Path path) {
    Store store = Stores.open(path);
    store.write(1, valueOf(1));
    store.snapshot().get(1);
    store.iterator(KeyRange.ALL).seekToFirst();
    new Batch(Keys.VALUE_BYTES).write(1, valueOf(1));
  }

  @Test
  void aDroppedStoreIsClosed() {
    Path path = directory.resolve("store");
    drop(path);
    for (int i = 0; i < 1000; i++) {
      System.gc();
      try (Store store = Stores.open(path)) {
        assertEquals(1, store.count(KeyRange.ALL));
        return;
      } catch (EngineRaceException error) {
        assertEquals(Code.IO_ERROR, error.code());
      }
    }
    fail("the store is still open");
  }

  @Test
  void aHandleIsFreedOnceAndAfterItsUsers() throws Exception {
    AtomicInteger freed = new AtomicInteger();
    Handle handle = new Handle(5, address -> freed.addAndGet((int) address), "it");
    assertEquals(5, handle.enter());
    assertEquals(5, handle.enter());
    handle.leave();
    Thread other = new Thread(() -> {
      handle.enter();
      handle.leave();
      handle.close();
      handle.close();
    });
    other.start();
    other.join();
    assertEquals(0, freed.get());
    assertThrows(IllegalStateException.class, handle::enter);
    assertEquals(0, freed.get());
    handle.leave();
    assertEquals(5, freed.get());
    assertThrows(IllegalStateException.class, handle::enter);
    handle.close();
    assertEquals(5, freed.get());
  }

  @Test
  void aLongLoopLeaksNoReferences() {
    try (Store store = Stores.open(directory.resolve("store"));
        Batch batch = new Batch(store.valueBytes())) {
      Stores.fill(store, 20, 1);
      ByteBuffer memory = ByteBuffer.allocateDirect(20 * 4096);
      long[] keys = {1, 2, 100};
      for (int i = 0; i < 2000; i++) {
        assertNull(store.get(100));
        store.read(1, memory);
        store.readMany(keys, memory, new int[3], (done, most) -> true);
        store.range(KeyRange.ALL, (key, value) -> key < 10);
        assertThrows(EngineRaceException.class, () -> store.property("none"));
        assertThrows(IllegalStateException.class, () -> store.range(KeyRange.ALL, (key, value) -> {
          throw new IllegalStateException();
        }));
        store.stats();
        new Options().get("paths");
        try (StoreIterator at = store.iterator(KeyRange.ALL); Snapshot taken = store.snapshot()) {
          at.seekToFirst();
          at.value(memory);
          taken.get(3);
        }
        batch.clear().write(1, valueOf(1));
      }
      assertFalse(store.stats().isEmpty());
    }
  }
}
