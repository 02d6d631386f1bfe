package race.engine;

import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.OptionalLong;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.ReadWriteLock;
import java.util.concurrent.locks.ReentrantReadWriteLock;
import java.util.function.Supplier;

/**
 * The part of {@link Store} that all calls share: its handle, its log, failures, and its end.
 *
 * <p>The C API lets the handle of a closed store be used, so calls need neither a lock nor a count.
 * Values of iterators are the exception: the engine shows its own memory there, and {@code copies}
 * keeps the store open until it is copied.
 */
abstract sealed class OpenStore extends Reader permits Store {
  /** Stays valid: the engine keeps the handle of a closed store. */
  final long address;
  private final int valueBytes;
  private final Log log;
  private final Closing closing;
  private final Cleaner.Cleanable cleanable;
  /** Held for reading while memory of the store is copied. */
  private final ReadWriteLock copies = new ReentrantReadWriteLock();

  /** Closes the engine's store once. The C API lets its handle be used afterwards. */
  private static final class Closing implements Runnable {
    final long address;
    final AtomicBoolean isClosed = new AtomicBoolean();

    Closing(long address) {
      this.address = address;
    }

    @Override
    public void run() {
      if (isClosed.compareAndSet(false, true)) {
        Native.close(address);
      }
    }
  }

  OpenStore(Path directory, Options options) {
    log = options.newLog();
    try {
      address = Native.open(
          Texts.of(directory, "the directory"), options.pairs(), Log.queueOf(log));
    } finally {
      Log.handOn(log);
    }
    valueBytes = Native.valueBytes(address);
    closing = new Closing(address);
    cleanable = Handle.CLEANER.register(this, closing);
  }

  @Override
  public int valueBytes() {
    return valueBytes;
  }

  boolean isClosed() {
    return closing.isClosed.get();
  }

  void checkOpen() {
    if (isClosed()) {
      throw new IllegalStateException("the store is closed");
    }
  }

  /** The exception for a failure: use after the end is a fault of the program. */
  RuntimeException explained(EngineRaceException error) {
    return error.code() == Code.INVALID_ARGUMENT && isClosed()
        ? new IllegalStateException("the store is closed", error) : error;
  }

  /** Until {@link #leaveCopy}, the store is not closed. */
  void enterCopy() {
    copies.readLock().lock();
    if (isClosed()) {
      copies.readLock().unlock();
      checkOpen();
    }
  }

  void leaveCopy() {
    copies.readLock().unlock();
  }

  void afterwards() {
    Log.handOn(log);
    Reference.reachabilityFence(this);
  }

  /** A call that is long enough for a lambda. */
  void call(Runnable work) {
    try {
      work.run();
    } catch (EngineRaceException error) {
      throw explained(error);
    } finally {
      afterwards();
    }
  }

  <T> T answer(Supplier<T> work) {
    try {
      return work.get();
    } catch (EngineRaceException error) {
      throw explained(error);
    } finally {
      afterwards();
    }
  }

  /** A call that may run code of the program. The log's consumer may close the store afterwards. */
  void longCall(Runnable work) {
    call(() -> {
      OwnCalls.begin(this);
      try {
        work.run();
      } finally {
        OwnCalls.end();
      }
    });
  }

  @Override
  boolean readDirect(long key, ByteBuffer target, int offset) {
    try {
      return Native.read(address, key, target, offset);
    } catch (EngineRaceException error) {
      throw explained(error);
    } finally {
      afterwards();
    }
  }

  @Override
  boolean readArray(long key, byte[] target, int offset) {
    try {
      return Native.readArray(address, key, target, offset, valueBytes);
    } catch (EngineRaceException error) {
      throw explained(error);
    } finally {
      afterwards();
    }
  }

  @Override
  void readPiece(
      long[] keys, int from, int count, ByteBuffer values, int offset, int[] codes,
      Progress progress) {
    longCall(() ->
        Native.readMany(address, keys, from, count, values, offset, codes, progress));
  }

  @Override
  void walk(KeyRange range, Walk walk, Block block) {
    OptionalLong lower = range.lower();
    OptionalLong upper = range.upper();
    longCall(() -> Native.range(
        address, 0, lower.isPresent(), lower.orElse(0), upper.isPresent(), upper.orElse(0), walk,
        block.memory, block.roomRecords, block.valueBytes, block.keysOffset));
  }

  /** Closes the store, unless another call does or has done so. */
  final void closeOnce() {
    if (OwnCalls.include(this)) {
      throw new IllegalStateException("a visitor or a progress may not close its store");
    }
    if (!closing.isClosed.compareAndSet(false, true)) {
      return;
    }
    // Values that are being copied come first; later copies see that the store is closed.
    copies.writeLock().lock();
    copies.writeLock().unlock();
    try {
      Native.close(address);
    } finally {
      cleanable.clean();
      afterwards();
    }
  }
}
