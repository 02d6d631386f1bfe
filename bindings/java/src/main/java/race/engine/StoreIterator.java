package race.engine;

import java.lang.ref.Cleaner;
import java.nio.ByteBuffer;
import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.OptionalLong;

/**
 * A walk in order of key, both ways, at one state of a store. It stands at no record until the
 * first seek.
 *
 * <p>One thread uses it at a time; others wait. When its store is closed, its calls throw
 * {@link IllegalStateException}. Until it is closed itself, the space of records that it shows is
 * not given back. {@link #ascending()} and {@link #descending()} are the iterators of Java over it.
 */
public final class StoreIterator implements AutoCloseable {
  private final OpenStore store;
  private final Memory memory;
  private final Cleaner.Cleanable cleanable;
  private boolean isValid;

  /** Frees the native iterator, in its cleaner or when it is closed. */
  private static final class Memory implements Runnable {
    long address;

    @Override
    public void run() {
      Native.iteratorDestroy(address);
      address = 0;
    }
  }

  /** A snapshot of 0 is the latest state. */
  StoreIterator(OpenStore store, long snapshot, IteratorOptions options) {
    this.store = store;
    memory = new Memory();
    OptionalLong lower = options.range().lower();
    OptionalLong upper = options.range().upper();
    try {
      memory.address = Native.iteratorCreate(
          store.address, snapshot, lower.isPresent(), lower.orElse(0), upper.isPresent(),
          upper.orElse(0), options.prefetchRecords(), options.refreshEverySteps());
    } catch (EngineRaceException error) {
      throw store.explained(error);
    }
    cleanable = Handle.CLEANER.register(this, memory);
  }

  /**
   * Seeks the first record of the range.
   *
   * @return whether there is one
   */
  public synchronized boolean seekToFirst() {
    return move(Native.TO_FIRST, 0);
  }

  /**
   * Seeks the last record of the range.
   *
   * @return whether there is one
   */
  public synchronized boolean seekToLast() {
    return move(Native.TO_LAST, 0);
  }

  /**
   * Seeks the first record at a key or behind it.
   *
   * @param key a number without a sign
   * @return whether there is one
   */
  public synchronized boolean seek(long key) {
    return move(Native.TO_KEY, key);
  }

  /**
   * Seeks the last record at a key or before it.
   *
   * @param key a number without a sign
   * @return whether there is one
   */
  public synchronized boolean seekForPrevious(long key) {
    return move(Native.BACK_TO_KEY, key);
  }

  /**
   * Steps to the next record. It does nothing unless the iterator stands at one.
   *
   * @return whether it stands at a record then
   */
  public synchronized boolean next() {
    return move(Native.TO_NEXT, 0);
  }

  /**
   * Steps to the record before. It does nothing unless the iterator stands at one.
   *
   * @return whether it stands at a record then
   */
  public synchronized boolean previous() {
    return move(Native.TO_PREVIOUS, 0);
  }

  /**
   * Whether it stands at a record.
   *
   * @return false before the first seek, behind the last record and after a failure
   */
  public synchronized boolean isValid() {
    checkOpen();
    return isValid;
  }

  /**
   * The key of the record where it stands.
   *
   * @return a number without a sign
   * @throws NoSuchElementException if it stands at no record
   */
  public synchronized long key() {
    checkValid();
    long key = Native.iteratorKey(memory.address);
    // The engine answers 0 for a closed store.
    store.checkOpen();
    return key;
  }

  /**
   * The value of the record where it stands.
   *
   * @return its bytes, in a new array
   * @throws NoSuchElementException if it stands at no record
   */
  public byte[] value() {
    byte[] value = new byte[valueBytes()];
    value(value, 0);
    return value;
  }

  /**
   * Copies the value of the record where it stands.
   *
   * @param target receives it
   * @param offset where its bytes begin
   * @throws NoSuchElementException if it stands at no record
   */
  public synchronized void value(byte[] target, int offset) {
    Buffers.checkRow(target, offset, valueBytes());
    checkValid();
    // The engine shows memory of the store, which may not be closed until it is copied.
    store.enterCopy();
    try {
      isValid = Native.iteratorValueArray(memory.address, target, offset, valueBytes());
    } catch (EngineRaceException error) {
      isValid = false;
      throw store.explained(error);
    } finally {
      store.leaveCopy();
    }
  }

  /**
   * Copies the value of the record where it stands to a buffer's position. The position stays.
   *
   * @param target has a value's bytes remaining at least
   * @throws NoSuchElementException if it stands at no record
   */
  public synchronized void value(ByteBuffer target) {
    Buffers.checkTarget(target, 1, valueBytes());
    if (!target.isDirect()) {
      value(target.array(), target.arrayOffset() + target.position());
      return;
    }
    checkValid();
    store.enterCopy();
    try {
      isValid = Native.iteratorValue(
          memory.address, target, target.position(), valueBytes());
    } catch (EngineRaceException error) {
      isValid = false;
      throw store.explained(error);
    } finally {
      store.leaveCopy();
    }
  }

  /**
   * Takes records from where it stands, in ascending order, and moves behind them. That costs less
   * than a call for each record.
   *
   * @param keys receives the keys, and says by its length how many records are taken at most
   * @param values receives the values from its position on, one behind the other. It has a
   *     value's bytes remaining for each key at least.
   * @return how many there were; fewer only at the end of the range or before a damaged record
   */
  public synchronized int take(long[] keys, ByteBuffer values) {
    Buffers.checkTarget(values, keys.length, valueBytes());
    if (values.isDirect()) {
      return takeInto(keys.length, keys, 0, values, values.position());
    }
    Block block = Block.LARGE.take(valueBytes());
    int taken = 0;
    try {
      while (taken < keys.length) {
        int count = Math.min(block.roomRecords, keys.length - taken);
        int found;
        try {
          found = takeInto(count, keys, taken, block.memory, 0);
        } catch (EngineRaceException error) {
          if (taken == 0) {
            throw error;
          }
          break; // the next call throws it again: the iterator keeps its status
        }
        values.put(
            values.position() + taken * block.valueBytes, block.memory, 0,
            found * block.valueBytes);
        taken += found;
        if (found < count) {
          break;
        }
      }
    } finally {
      Block.LARGE.giveBack(block);
    }
    return taken;
  }

  /**
   * Takes keys as {@link #take} takes records. No value is read.
   *
   * @param keys receives the keys, and says by its length how many are taken at most
   * @return how many there were; fewer only at the end of the range
   */
  public synchronized int takeKeys(long[] keys) {
    return takeInto(keys.length, keys, 0, null, 0);
  }

  int valueBytes() {
    return store.valueBytes();
  }

  /** Takes records into a block. */
  synchronized int take(int count, long[] keys, Block block) {
    return takeInto(count, keys, 0, block.memory, 0);
  }

  private int takeInto(int count, long[] keys, int from, ByteBuffer values, int offset) {
    checkOpen();
    try {
      return Native.iteratorTake(memory.address, count, keys, from, values, offset);
    } catch (EngineRaceException error) {
      throw store.explained(error);
    } finally {
      isValid = Native.iteratorValid(memory.address);
    }
  }

  /** Moves on to the latest state. It stands at no record then. */
  public synchronized void refresh() {
    checkOpen();
    isValid = false;
    try {
      Native.iteratorRefresh(memory.address);
    } catch (EngineRaceException error) {
      throw store.explained(error);
    }
  }

  /**
   * The records of the range in ascending order of key. It moves this iterator, reads ahead by up
   * to 32 records, and ends with this iterator.
   *
   * @return an iterator of Java
   */
  public Iterator<Entry> ascending() {
    return new Entries(this, true);
  }

  /**
   * The records of the range in descending order of key. It moves this iterator, and ends with it.
   *
   * @return an iterator of Java
   */
  public Iterator<Entry> descending() {
    return new Entries(this, false);
  }

  private boolean move(int how, long key) {
    checkOpen();
    isValid = false;
    try {
      isValid = Native.iteratorMove(memory.address, how, key);
      return isValid;
    } catch (EngineRaceException error) {
      throw store.explained(error);
    }
  }

  private void checkOpen() {
    store.checkOpen();
    if (memory.address == 0) {
      throw new IllegalStateException("the iterator is closed");
    }
  }

  private void checkValid() {
    checkOpen();
    if (!isValid) {
      throw new NoSuchElementException("the iterator stands at no record");
    }
  }

  /** Frees the iterator. Closing it again does nothing. */
  @Override
  public synchronized void close() {
    cleanable.clean();
  }
}
