package race.engine;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.LongBuffer;
import java.util.concurrent.ArrayBlockingQueue;

/**
 * Direct memory for records on their way between the engine and the Java heap: values, and behind
 * them their keys. Blocks are kept for later calls, because direct memory is dear to allocate.
 */
final class Block {
  /** For ranges and streams: it fits a core's cache. */
  static final Pool SMALL = new Pool(32, 16);
  /** For calls that read or write many records of the heap: as many keep a device busy. */
  static final Pool LARGE = new Pool(1024, 4);

  final ByteBuffer memory;
  // Of the values that it holds until it is given back.
  int roomRecords;
  int valueBytes;
  int keysOffset;
  private LongBuffer keys;
  private ByteBuffer[] rows;

  private Block(int bytes) {
    memory = ByteBuffer.allocateDirect(bytes);
  }

  private Block with(int records, int bytesOfValue) {
    if (roomRecords != records || valueBytes != bytesOfValue) {
      roomRecords = records;
      valueBytes = bytesOfValue;
      // The engine's memory of keys is aligned.
      keysOffset = (records * bytesOfValue + Long.BYTES - 1) / Long.BYTES * Long.BYTES;
      keys = memory.slice(keysOffset, records * Long.BYTES).order(ByteOrder.nativeOrder())
          .asLongBuffer();
      rows = new ByteBuffer[records];
    }
    return this;
  }

  long key(int index) {
    return keys.get(index);
  }

  /** The value of a record, to be read. */
  ByteBuffer row(int index) {
    if (rows[index] == null) {
      rows[index] = memory.slice(index * valueBytes, valueBytes).asReadOnlyBuffer();
    }
    return rows[index].clear().order(ByteOrder.BIG_ENDIAN);
  }

  byte[] copyOfRow(int index) {
    byte[] copy = new byte[valueBytes];
    memory.get(index * valueBytes, copy);
    return copy;
  }

  /**
   * Blocks of one size. It keeps a few, and leaves further ones to the garbage collector. Values
   * above the usual size lie in fewer records, and one that fits no block in one of its own.
   */
  static final class Pool {
    private final int mostRecords;
    private final int bytes;
    private final ArrayBlockingQueue<Block> free;

    private Pool(int mostRecords, int mostKept) {
      this.mostRecords = mostRecords;
      bytes = bytesOf(mostRecords, Keys.VALUE_BYTES);
      free = new ArrayBlockingQueue<>(mostKept);
    }

    /** With the gap before the keys. */
    private static int bytesOf(int records, int valueBytes) {
      return records * (valueBytes + Long.BYTES) + Long.BYTES;
    }

    Block take(int valueBytes) {
      int records = Math.min(mostRecords, bytes / bytesOf(1, valueBytes));
      if (valueBytes <= Keys.VALUE_BYTES) {
        records = mostRecords;
      }
      if (records == 0) {
        return new Block(bytesOf(1, valueBytes)).with(1, valueBytes);
      }
      Block block = free.poll();
      return (block != null ? block : new Block(bytes)).with(records, valueBytes);
    }

    void giveBack(Block block) {
      if (block.memory.capacity() == bytes) {
        free.offer(block);
      }
    }
  }
}
