package race.engine;

import java.lang.ref.Cleaner;
import java.nio.ByteBuffer;

/**
 * Writes and deletions that a store takes as a whole, or not at all: {@link Store#write(Batch)}.
 *
 * <p>It copies its values, belongs to no store, and may be written several times, to stores whose
 * values have its size. One thread uses it at a time; others wait. Its memory is outside the Java
 * heap, so close it.
 */
public final class Batch implements AutoCloseable {
  private final int valueBytes;
  private final Memory memory;
  private final Cleaner.Cleanable cleanable;

  /** Frees the native batch, in its cleaner or when it is closed. */
  private static final class Memory implements Runnable {
    long address;

    Memory(int valueBytes) {
      address = Native.batchCreate(valueBytes);
    }

    @Override
    public void run() {
      Native.batchDestroy(address);
      address = 0;
    }
  }

  /**
   * A batch without entries.
   *
   * @param valueBytes the size of its values: see {@link Store#valueBytes()}
   * @throws IllegalArgumentException if no store has values of this size
   */
  public Batch(int valueBytes) {
    if (valueBytes < Keys.MIN_VALUE_BYTES || valueBytes > Keys.MAX_VALUE_BYTES) {
      throw new IllegalArgumentException("no store has values of " + valueBytes + " bytes");
    }
    this.valueBytes = valueBytes;
    memory = new Memory(valueBytes);
    cleanable = Handle.CLEANER.register(this, memory);
  }

  /**
   * Adds a write. Later entries of a key win.
   *
   * @param key a number without a sign
   * @param value as many bytes as the values of this batch have
   * @return this batch
   */
  public synchronized Batch write(long key, byte[] value) {
    Buffers.checkSource(value, valueBytes);
    Native.batchWriteArray(open(), key, value, 0, valueBytes);
    return this;
  }

  /**
   * Adds a write.
   *
   * @param key a number without a sign
   * @param value has a value's bytes remaining; its position stays
   * @return this batch
   */
  public synchronized Batch write(long key, ByteBuffer value) {
    Buffers.checkSource(value, 1, valueBytes);
    if (value.isDirect()) {
      Native.batchWrite(open(), key, value, value.position());
    } else {
      Native.batchWriteArray(open(), key, Buffers.copyOf(value), 0, valueBytes);
    }
    return this;
  }

  /**
   * Adds many writes.
   *
   * @param keys numbers without a sign
   * @param values has a value's bytes remaining for each key; its position stays
   * @return this batch
   */
  public synchronized Batch writeMany(long[] keys, ByteBuffer values) {
    Buffers.checkSource(values, keys.length, valueBytes);
    long address = open();
    if (values.isDirect()) {
      Native.batchWriteMany(address, keys, 0, keys.length, values, values.position());
      return this;
    }
    Native.batchReserve(address, Native.batchSize(address) + keys.length, 0);
    Pieces.ofHeap(keys.length, values, valueBytes, (from, count, block) ->
        Native.batchWriteMany(address, keys, from, count, block.memory, 0));
    return this;
  }

  /**
   * Adds a deletion. Deleting what is not there succeeds.
   *
   * @param key a number without a sign
   * @return this batch
   */
  public synchronized Batch delete(long key) {
    Native.batchDelete(open(), key);
    return this;
  }

  /**
   * Makes room for entries, so that adding them allocates nothing.
   *
   * @param writeCount writes in all
   * @param deleteCount deletions in all
   * @return this batch
   */
  public synchronized Batch reserve(long writeCount, long deleteCount) {
    if (writeCount < 0 || deleteCount < 0) {
      throw new IllegalArgumentException("counts are at least 0");
    }
    Native.batchReserve(open(), writeCount, deleteCount);
    return this;
  }

  /**
   * Drops all entries and keeps their memory for the next ones.
   *
   * @return this batch
   */
  public synchronized Batch clear() {
    Native.batchClear(open());
    return this;
  }

  /**
   * Counts the entries.
   *
   * @return entries, earlier ones of a key included
   */
  public synchronized long size() {
    return Native.batchSize(open());
  }

  synchronized void writeTo(long store) {
    Native.writeBatch(store, open());
  }

  private long open() {
    if (memory.address == 0) {
      throw new IllegalStateException("the batch is closed");
    }
    return memory.address;
  }

  /** Frees the batch. Closing it again does nothing. */
  @Override
  public synchronized void close() {
    cleanable.clean();
  }
}
