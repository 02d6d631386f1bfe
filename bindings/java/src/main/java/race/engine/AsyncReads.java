package race.engine;

import java.nio.ByteBuffer;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executor;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Asynchronous reads of all stores. The engine's threads put reads that have ended into a queue. A
 * daemon thread takes them from there and has an executor complete their futures, each in a task of
 * its own. So code of the program may wait for another read: it blocks neither the engine nor this.
 */
final class AsyncReads {
  private static final int TAKEN_AT_ONCE = 64;
  /** Null until the first read. */
  private static AsyncReads instance;

  // Before the thread: where memory is refused, the caller is told, and the next call tries again.
  private final ByteBuffer values = ByteBuffer.allocateDirect(TAKEN_AT_ONCE * Keys.VALUE_BYTES);
  private final long endedReads = Native.endedReadsCreate();
  private final AtomicLong lastNumber = new AtomicLong();
  /** Keeps stores and buffers while the engine reads. */
  private final ConcurrentHashMap<Long, Pending<?>> pending = new ConcurrentHashMap<>();

  /**
   * A read that has not ended. One that gives an array has a target only for a value above the
   * usual size.
   */
  private record Pending<T>(
      OpenStore store, long key, ByteBuffer target, boolean givesArray,
      CompletableFuture<T> future, Executor executor) {}

  private AsyncReads() {
    Thread thread = new Thread(this::completeAll, "engine_race reads");
    thread.setDaemon(true);
    thread.start();
  }

  private static synchronized AsyncReads get() {
    if (instance == null) {
      instance = new AsyncReads();
    }
    return instance;
  }

  static CompletableFuture<byte[]> toArray(OpenStore store, long key, Executor executor) {
    int size = store.valueBytes();
    ByteBuffer target = size <= Keys.VALUE_BYTES ? null : ByteBuffer.allocateDirect(size);
    return get().start(
        new Pending<>(store, key, target, true, new CompletableFuture<>(), executor));
  }

  static CompletableFuture<Boolean> toBuffer(
      OpenStore store, long key, ByteBuffer target, Executor executor) {
    // Of its own position: the program may change that of its buffer meanwhile.
    ByteBuffer slice = target.slice();
    return get().start(
        new Pending<>(store, key, slice, false, new CompletableFuture<>(), executor));
  }

  private <T> CompletableFuture<T> start(Pending<T> read) {
    long number = lastNumber.incrementAndGet();
    pending.put(number, read);
    try {
      Native.readAsync(
          endedReads, read.store.address, read.key, number, read.target, 0,
          read.store.valueBytes());
    } catch (EngineRaceException error) {
      pending.remove(number);
      read.future.completeExceptionally(read.store.explained(error));
    } catch (Throwable error) {
      pending.remove(number);
      throw error;
    }
    return read.future;
  }

  private void completeAll() {
    long[] numbers = new long[TAKEN_AT_ONCE];
    int[] codes = new int[TAKEN_AT_ONCE];
    while (true) {
      int count = Native.endedReadsTake(endedReads, numbers, codes, values);
      for (int i = 0; i < count; i++) {
        Pending<?> read = pending.remove(numbers[i]);
        try {
          complete(read, Code.of(codes[i]), values, i * Keys.VALUE_BYTES);
        } catch (Throwable error) {
          // Memory was refused, or the executor takes no tasks any more.
          read.future.completeExceptionally(error);
        }
      }
    }
  }

  @SuppressWarnings("unchecked")
  private static <T> void complete(Pending<T> read, Code code, ByteBuffer values, int at) {
    CompletableFuture<T> future = read.future;
    if (code != Code.OK && code != Code.NOT_FOUND) {
      EngineRaceException error = new EngineRaceException(
          code, "key " + Long.toUnsignedString(read.key) + " cannot be read");
      read.executor.execute(() -> future.completeExceptionally(error));
      return;
    }
    Object result;
    if (!read.givesArray) {
      result = code == Code.OK;
    } else if (code == Code.OK) {
      byte[] value = new byte[read.store.valueBytes()];
      if (read.target != null) {
        read.target.get(0, value);
      } else {
        values.get(at, value);
      }
      result = value;
    } else {
      result = null;
    }
    read.executor.execute(() -> future.complete((T) result));
  }
}
