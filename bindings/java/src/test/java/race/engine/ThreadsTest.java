package race.engine;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static race.engine.Stores.valueOf;

import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ThreadsTest {
  private static final int THREADS = 64;
  private static final int COUNT = 2000;
  @TempDir Path directory;

  /** Runs a body in 64 threads at once, and throws what one of them has thrown. */
  private static void inThreads(Body body, Callable<Void> meanwhile) throws Exception {
    ExecutorService threads = Executors.newFixedThreadPool(THREADS);
    List<Future<Void>> ends = new ArrayList<>();
    for (int i = 0; i < THREADS; i++) {
      int number = i;
      ends.add(threads.submit(() -> {
        body.run(number);
        return null;
      }));
    }
    meanwhile.call();
    threads.shutdown();
    for (Future<Void> end : ends) {
      end.get();
    }
  }

  private interface Body {
    void run(int number) throws Exception;
  }

  @Test
  void threadsWriteReadAndWalk() throws Exception {
    try (Store store = Stores.open(directory.resolve("store"))) {
      inThreads(number -> {
        ByteBuffer memory = ByteBuffer.allocateDirect(4096);
        for (long i = 0; i < 200; i++) {
          long key = i * THREADS + number;
          store.write(key, valueOf(key));
          assertTrue(store.read(key, memory));
          Stores.checkValue(memory, 0, key, 0);
          if (i % 50 == 0) {
            store.range(KeyRange.of(key, key + 100), (found, value) -> {
              Stores.checkValue(value, 0, found, 0);
              return true;
            });
          }
        }
      }, () -> null);
      assertEquals(200 * THREADS, store.count(KeyRange.ALL));
    }
  }

  /** Repeats a call until it says that its object is closed. */
  private static void untilClosed(AtomicLong calls, CountDownLatch begun, Runnable call) {
    boolean isFirst = true;
    while (true) {
      try {
        call.run();
      } catch (IllegalStateException error) {
        assertTrue(error.getMessage().endsWith("is closed"), error::getMessage);
        return;
      }
      calls.incrementAndGet();
      if (isFirst) {
        begun.countDown();
        isFirst = false;
      }
    }
  }

  @Test
  void aStoreIsClosedWhileOthersUseIt() throws Exception {
    for (int round = 0; round < 3; round++) {
      Store store = Stores.open(directory.resolve("store" + round));
      Stores.fill(store, COUNT, 1);
      Snapshot snapshot = store.snapshot();
      StoreIterator shared = store.iterator(KeyRange.ALL);
      CountDownLatch begun = new CountDownLatch(THREADS);
      AtomicLong calls = new AtomicLong();
      inThreads(number -> {
        ByteBuffer memory = ByteBuffer.allocateDirect(16 * 4096);
        long[] keys = new long[16];
        try (StoreIterator own = store.iterator(KeyRange.ALL)) {
          own.seekToFirst();
          untilClosed(calls, begun, switch (number % 12) {
            case 0 -> () -> store.read(calls.get() % COUNT, memory);
            case 1 -> () -> store.write(calls.get() % COUNT, valueOf(1));
            case 2 -> () -> store.get(calls.get() % COUNT);
            case 3 -> () -> snapshot.read(calls.get() % COUNT, memory);
            case 4 -> () -> store.range(KeyRange.ALL, (key, value) -> value.getLong() >= 0);
            case 5 -> () -> snapshot.range(KeyRange.from(COUNT / 2), (key, value) -> true);
            case 6 -> () -> {
              if (!own.next()) {
                own.seekToFirst();
              }
              own.value(memory);
            };
            case 7 -> () -> {
              own.seek(calls.get() % COUNT / 2);
              assertEquals(16, own.take(keys, memory));
            };
            case 8 -> () -> {
              synchronized (shared) {
                shared.seekForPrevious(calls.get() % COUNT);
                assertEquals(4096, shared.value().length);
              }
            };
            case 9 -> () -> {
              try (Snapshot mine = store.snapshot()) {
                mine.read(calls.get() % COUNT, memory);
              }
            };
            case 10 -> () -> store.readMany(keys, memory, new int[16]);
            default -> () -> store.stats();
          });
        }
      }, () -> {
        begun.await();
        store.close();
        return null;
      });
      assertThrows(IllegalStateException.class, () -> store.get(1));
      snapshot.close();
      shared.close();
    }
  }

  @Test
  void aSnapshotIsClosedWhileOthersUseIt() throws Exception {
    try (Store store = Stores.open(directory.resolve("store"))) {
      Stores.fill(store, COUNT, 1);
      for (int round = 0; round < 5; round++) {
        Snapshot snapshot = store.snapshot();
        CountDownLatch begun = new CountDownLatch(THREADS);
        AtomicLong calls = new AtomicLong();
        inThreads(number -> {
          ByteBuffer memory = ByteBuffer.allocateDirect(4096);
          untilClosed(calls, begun, number % 8 == 0
              ? () -> snapshot.range(KeyRange.below(50), (key, value) -> true)
              : () -> snapshot.read(calls.get() % COUNT, memory));
        }, () -> {
          begun.await();
          snapshot.close();
          return null;
        });
      }
    }
  }

  @Test
  void anIteratorAndABatchAreSharedAndClosed() throws Exception {
    try (Store store = Stores.open(directory.resolve("store"))) {
      Stores.fill(store, COUNT, 1);
      for (int round = 0; round < 10; round++) {
        StoreIterator iterator = store.iterator(KeyRange.ALL);
        Batch batch = new Batch(Keys.VALUE_BYTES);
        CountDownLatch begun = new CountDownLatch(THREADS);
        AtomicLong calls = new AtomicLong();
        inThreads(number -> untilClosed(calls, begun, number % 2 == 0
            ? () -> {
              iterator.seek(calls.get() % COUNT);
              iterator.previous();
            }
            : () -> store.write(batch.write(number, valueOf(number)).clear())),
            () -> {
              begun.await();
              iterator.close();
              batch.close();
              return null;
            });
      }
    }
  }

  @Test
  void twoThreadsCloseAStore() throws Exception {
    for (int round = 0; round < 20; round++) {
      Store store = Stores.open(directory.resolve("store"));
      inThreads(number -> store.close(), () -> null);
      assertThrows(IllegalStateException.class, () -> store.get(1));
    }
  }
}
