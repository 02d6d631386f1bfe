package race.engine;

import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.util.OptionalLong;

/**
 * A state of a store that stays readable while writers go on. Until it is closed, the space of
 * records that it shows is not given back.
 *
 * <p>Any number of threads may use it at once, also while one of them closes it. When its store is
 * closed, its calls throw {@link IllegalStateException}.
 */
public final class Snapshot extends Reader implements AutoCloseable {
  private final OpenStore store;
  private final Handle handle;
  private final Cleaner.Cleanable cleanable;

  Snapshot(OpenStore store, long address) {
    this.store = store;
    handle = new Handle(address, Native::snapshotRelease, "the snapshot");
    cleanable = Handle.CLEANER.register(this, handle);
  }

  @Override
  public int valueBytes() {
    return store.valueBytes();
  }

  @Override
  boolean readDirect(long key, ByteBuffer target, int offset) {
    long address = handle.enter();
    try {
      return Native.snapshotRead(address, key, target, offset);
    } catch (EngineRaceException error) {
      throw store.explained(error);
    } finally {
      afterwards();
    }
  }

  @Override
  boolean readArray(long key, byte[] target, int offset) {
    long address = handle.enter();
    try {
      return Native.snapshotReadArray(address, key, target, offset, valueBytes());
    } catch (EngineRaceException error) {
      throw store.explained(error);
    } finally {
      afterwards();
    }
  }

  @Override
  void readPiece(
      long[] keys, int from, int count, ByteBuffer values, int offset, int[] codes,
      Progress progress) {
    long address = handle.enter();
    OwnCalls.begin(store);
    try {
      Native.snapshotReadMany(address, keys, from, count, values, offset, codes, progress);
    } catch (EngineRaceException error) {
      throw store.explained(error);
    } finally {
      OwnCalls.end();
      afterwards();
    }
  }

  @Override
  void walk(KeyRange range, Walk walk, Block block) {
    OptionalLong lower = range.lower();
    OptionalLong upper = range.upper();
    long address = handle.enter();
    OwnCalls.begin(store);
    try {
      Native.range(
          0, address, lower.isPresent(), lower.orElse(0), upper.isPresent(), upper.orElse(0), walk,
          block.memory, block.roomRecords, block.valueBytes, block.keysOffset);
    } catch (EngineRaceException error) {
      throw store.explained(error);
    } finally {
      OwnCalls.end();
      afterwards();
    }
  }

  @Override
  public StoreIterator iterator(IteratorOptions options) {
    long address = handle.enter();
    try {
      return new StoreIterator(store, address, options);
    } finally {
      afterwards();
    }
  }

  private void afterwards() {
    handle.leave();
    store.afterwards();
    Reference.reachabilityFence(this);
  }

  /** Releases the snapshot. Calls that are under way end first. Closing it again does nothing. */
  @Override
  public void close() {
    cleanable.clean();
  }
}
