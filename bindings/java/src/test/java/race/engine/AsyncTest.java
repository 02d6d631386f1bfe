package race.engine;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static race.engine.Stores.valueOf;

import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.RejectedExecutionException;
import java.util.stream.LongStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class AsyncTest {
  private static final int COUNT = 3000;
  private static final Executor POOL = ForkJoinPool.commonPool();
  @TempDir Path directory;
  private Store store;

  @BeforeEach
  void open() {
    store = Store.open(directory.resolve("store"), Stores.small().hotValueBytes(0));
    long[] keys = LongStream.range(0, COUNT).toArray();
    store.writeMany(keys, Stores.valuesOf(keys, true));
  }

  @AfterEach
  void close() {
    store.close();
  }

  @Test
  void thousandsOfReadsAtOnce() {
    List<CompletableFuture<byte[]>> reads = new ArrayList<>();
    for (long key = 0; key < COUNT + 10; key++) {
      reads.add(store.readAsync(key));
    }
    for (int key = 0; key < COUNT; key++) {
      assertArrayEquals(valueOf(key), reads.get(key).join());
    }
    for (int key = COUNT; key < COUNT + 10; key++) {
      assertNull(reads.get(key).join());
    }
  }

  @Test
  void readsIntoBuffers() throws Exception {
    List<CompletableFuture<Boolean>> reads = new ArrayList<>();
    ByteBuffer memory = ByteBuffer.allocateDirect(100 * 4096 + 5);
    for (int i = 0; i < 100; i++) {
      memory.position(5 + i * 4096);
      reads.add(store.readAsync(i == 99 ? COUNT : i, memory, POOL));
      assertEquals(5 + i * 4096, memory.position());
    }
    for (int i = 0; i < 99; i++) {
      assertTrue(reads.get(i).get());
      Stores.checkValue(memory, 5 + i * 4096, i, 0);
    }
    assertFalse(reads.get(99).get());
    assertThrows(IllegalArgumentException.class,
        () -> store.readAsync(1, ByteBuffer.allocate(4096), POOL));
    assertThrows(IllegalArgumentException.class,
        () -> store.readAsync(1, ByteBuffer.allocateDirect(4095), POOL));
    assertThrows(NullPointerException.class, () -> store.readAsync(1, (Executor) null));
  }

  @Test
  void whatFollowsMayWaitForAnotherRead() {
    List<CompletableFuture<byte[]>> reads = new ArrayList<>();
    for (long key = 0; key < 200; key++) {
      long next = key + 1;
      reads.add(store.readAsync(key, task -> new Thread(task).start())
          .thenApply(value -> store.readAsync(next).join()));
    }
    for (int key = 0; key < 200; key++) {
      assertArrayEquals(valueOf(key + 1), reads.get(key).join());
    }
  }

  @Test
  void closingWaitsForReadsThatWereStarted() {
    List<CompletableFuture<byte[]>> reads = new ArrayList<>();
    for (long key = 0; key < 1000; key++) {
      reads.add(store.readAsync(key));
    }
    store.close();
    for (int key = 0; key < 1000; key++) {
      assertArrayEquals(valueOf(key), reads.get(key).join());
    }
    CompletableFuture<byte[]> late = store.readAsync(1);
    ExecutionException error = assertThrows(ExecutionException.class, late::get);
    assertInstanceOf(IllegalStateException.class, error.getCause());
  }

  @Test
  void whatFollowsMayCloseTheStore() {
    store.readAsync(1, Runnable::run).thenAccept(value -> store.close()).join();
    assertThrows(IllegalStateException.class, () -> store.get(1));
  }

  @Test
  void anExecutorThatRefuses() {
    RejectedExecutionException mine = new RejectedExecutionException();
    CompletableFuture<byte[]> read = store.readAsync(1, task -> {
      throw mine;
    });
    ExecutionException error = assertThrows(ExecutionException.class, read::get);
    assertEquals(mine, error.getCause());
    assertArrayEquals(valueOf(1), store.readAsync(1).join());
  }

  @Test
  void atTheLimitACallIsRefusedIfItMayNotWait() throws Exception {
    store.close();
    store = Store.open(directory.resolve("store"),
        Stores.small().hotValueBytes(0).asyncReadLimit(1).set("async_read_waits", "false"));
    List<CompletableFuture<byte[]>> reads = new ArrayList<>();
    boolean isBusy = false;
    while (!isBusy) {
      CompletableFuture<byte[]> read = store.readAsync(reads.size() % COUNT);
      reads.add(read);
      try {
        isBusy = read.isCompletedExceptionally() && read.get() == null;
      } catch (ExecutionException error) {
        assertEquals(Code.BUSY, ((EngineRaceException) error.getCause()).code());
        isBusy = true;
      }
    }
    for (CompletableFuture<byte[]> read : reads.subList(0, reads.size() - 1)) {
      assertEquals(4096, read.get().length);
    }
  }
}
