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

  final int roomRecords;
  final ByteBuffer memory;
  private final LongBuffer keys;
  private final ByteBuffer[] rows;

  private Block(int roomRecords) {
    this.roomRecords = roomRecords;
    int valueBytes = roomRecords * Keys.VALUE_BYTES;
    memory = ByteBuffer.allocateDirect(valueBytes + roomRecords * Long.BYTES);
    keys = memory.slice(valueBytes, roomRecords * Long.BYTES).order(ByteOrder.nativeOrder())
        .asLongBuffer();
    rows = new ByteBuffer[roomRecords];
  }

  long key(int index) {
    return keys.get(index);
  }

  /** The value of a record, to be read. */
  ByteBuffer row(int index) {
    if (rows[index] == null) {
      rows[index] = memory.slice(index * Keys.VALUE_BYTES, Keys.VALUE_BYTES).asReadOnlyBuffer();
    }
    return rows[index].clear().order(ByteOrder.BIG_ENDIAN);
  }

  byte[] copyOfRow(int index) {
    byte[] copy = new byte[Keys.VALUE_BYTES];
    memory.get(index * Keys.VALUE_BYTES, copy);
    return copy;
  }

  /** Blocks of one size. It keeps a few, and leaves further ones to the garbage collector. */
  static final class Pool {
    private final int roomRecords;
    private final ArrayBlockingQueue<Block> free;

    private Pool(int roomRecords, int mostKept) {
      this.roomRecords = roomRecords;
      free = new ArrayBlockingQueue<>(mostKept);
    }

    Block take() {
      Block block = free.poll();
      return block != null ? block : new Block(roomRecords);
    }

    void giveBack(Block block) {
      free.offer(block);
    }
  }
}
